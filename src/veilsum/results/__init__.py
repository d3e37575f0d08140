"""Results of a run: estimates, errors, intervals and guarantees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from veilsum._lazy import lazily

if TYPE_CHECKING:
    from veilsum.results.combined import Provenance
    from veilsum.results.result import Errors, Result

__all__ = ["Errors", "Provenance", "Result"]

__getattr__ = lazily(__name__, {"Errors": "result", "Provenance": "combined", "Result": "result"})
