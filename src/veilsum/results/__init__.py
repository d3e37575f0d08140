"""Results of a run: estimates, errors, intervals and guarantees."""

from __future__ import annotations

from veilsum.results.combined import Provenance
from veilsum.results.result import Errors, Result

__all__ = ["Errors", "Provenance", "Result"]
