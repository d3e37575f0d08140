"""One release, never two: everything that may happen to a site, at every moment of a step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleet.safety.scenarios import SCENARIOS, Lab
from tests.fleet.safety.twins import TWINS, Twin


@pytest.mark.parametrize("name", SCENARIOS)
def test_one_release_never_two(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path, monkeypatch)
    SCENARIOS[name](lab)
    lab.clean()
    assert all(fleet.checker.opened for fleet in lab.all)


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: f"{twin.name}-{twin.scenario}")
def test_the_same_scenarios_find_every_twin(
    twin: Twin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path, monkeypatch, twin.put_on(monkeypatch))
    SCENARIOS[twin.scenario](lab)
    assert twin.fault in lab.faults
