"""Every kind of table with the same rows has the same fingerprint, and so one budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.asking.tables import KINDS, columns
from veilsum.asking.fingerprint import Fingerprinter
from veilsum.asking.tables import open_table


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_has_the_same_fingerprint(kind: str, tmp_path: Path) -> None:
    table = columns(200)
    table["kwh"][3] = table["region"][4] = None
    of = Fingerprinter(bytes(32)).of
    assert of(open_table(KINDS[kind](tmp_path, table))) == of(open_table(table))
