"""Folders of a fleet."""

from pathlib import Path

import pytest

from tests.fleet.commands.folders import Folders


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """An empty place."""
    return Folders(tmp_path)
