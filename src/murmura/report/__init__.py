"""Measured errors, text and figures of a run."""

from __future__ import annotations

from murmura.report.files import write
from murmura.report.result import Result
from murmura.report.units import Errors

__all__ = ["Errors", "Result", "write"]
