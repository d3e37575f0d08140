"""`python -m veilsum.cli` is `veilsum`."""

from __future__ import annotations

from veilsum.cli import main

main()
