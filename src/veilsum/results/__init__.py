"""Results of a run: estimates, errors, guarantees, files and figures."""

from __future__ import annotations

from veilsum.results.result import Errors, Result
from veilsum.results.summary import Provenance
from veilsum.results.writer import write_all

__all__ = ["Errors", "Provenance", "Result", "write_all"]
