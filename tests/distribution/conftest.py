"""The distributions, built once for the tests of a process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.environments import build


@dataclass(frozen=True)
class BuiltDistributions:
    wheel: Path
    sdist: Path


@pytest.fixture(scope="package")
def built(tmp_path_factory: pytest.TempPathFactory) -> BuiltDistributions:
    wheel, sdist = build(tmp_path_factory.mktemp("dist"))
    assert wheel.suffix == ".whl"
    assert sdist.name.endswith(".tar.gz")
    return BuiltDistributions(wheel, sdist)
