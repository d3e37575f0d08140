"""Signals: what the agents measured. They come in once, are checked, and are never printed.

signals = murmura.signals.as_signals("meters.csv", labels=mixing.labels)
signals = signals.clip(0.1, None).check(family)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from murmura.signals.core import Origin, Signals
    from murmura.signals.load import as_signals
    from murmura.signals.missing import Missing

_WHERE = {"Missing": "missing", "Origin": "core", "Signals": "core", "as_signals": "load"}

__all__ = ["Missing", "Origin", "Signals", "as_signals"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
