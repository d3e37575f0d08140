"""`python -m murmura.cli` is `murmura`."""

from __future__ import annotations

from murmura.cli import main

main()
