"""Signals: what the agents measured. They are read once, checked, and never published.

signals = veilsum.signals.as_signals("meters.csv", labels=mixing.labels)
signals = signals.clip(0.1, None).check(family)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from veilsum._lazy import lazily

if TYPE_CHECKING:
    from veilsum.signals.core import Origin, Signals
    from veilsum.signals.load import Missing, as_signals

_HOMES = {"Missing": "load", "Origin": "core", "Signals": "core", "as_signals": "load"}

__all__ = ["Missing", "Origin", "Signals", "as_signals"]

__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
