"""Files that compare with the truth: secret by name, and for their owner's eyes alone."""

from __future__ import annotations

import os
from pathlib import Path

SUFFIX = ".secret"
OWNER_ALONE = 0o600


def owned(path: Path) -> Path:
    """An empty file that its owner alone can read and write, whatever was there before.

    What is written into it later is at no moment readable by anyone else.
    """
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ALONE))
    return path
