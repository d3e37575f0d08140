"""The real readings for tests, where they are."""

import os
from pathlib import Path
from typing import Any

import pytest

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture(autouse=True)
def data(monkeypatch: Any) -> None:
    if "VEILSUM_DATA" not in os.environ and BESIDE.is_dir():
        monkeypatch.setenv("VEILSUM_DATA", str(BESIDE))
    monkeypatch.delenv("VEILSUM_DATA_URL", raising=False)
