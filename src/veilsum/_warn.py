"""Warnings that point at the line of the caller outside this package."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).parent) + os.sep


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning at the first frame outside veilsum, however deep the call."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
