"""Results of a run: estimates, errors, guarantees, files and figures."""

from __future__ import annotations

from murmura.results.result import Errors, Result
from murmura.results.summary import Provenance
from murmura.results.writer import write_all

__all__ = ["Errors", "Provenance", "Result", "write_all"]
