"""pip installs each extra from the package index, and nothing but what the wheel's metadata say.

`test_extras.py` does the same without a network, from the packages of the tests; here it is shown that
pip arrives at the same packages. All but one are marked slow: they download hundreds of megabytes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distribution.conftest import BuiltDistributions
from tests.distribution.test_extras import SCENARIO, SMOKES
from tools.environments import CleanEnvironment, brought

CHOSEN = [
    pytest.param(extra, marks=[pytest.mark.integration if extra == "agents" else pytest.mark.slow])
    for extra in SMOKES
]


@pytest.mark.parametrize("extra", CHOSEN)
def test_pip_installs_an_extra_that_works(
    built: BuiltDistributions, extra: str, tmp_path: Path
) -> None:
    env = CleanEnvironment(tmp_path / "env")
    env.install(built.wheel, extra)
    assert env.installed() == brought(built.wheel, extra)
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "ring.toml").write_text(SCENARIO)
    SMOKES[extra](env, folder)
