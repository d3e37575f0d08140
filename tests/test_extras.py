"""The command that errors name for an extra that is missing: one that works for this installation."""

import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from veilsum import _extras
from veilsum._extras import install_command
from veilsum.errors import MissingExtraError


class Installed:
    """A distribution with, or without, the record of where it came from."""

    def __init__(self, record: Any = None) -> None:
        self.record = record

    def __call__(self, _name: str) -> "Installed":
        return self

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self.record is None else json.dumps(self.record)


def test_a_checkout_is_named_and_stays_editable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "a copy"
    checkout.mkdir()
    record: dict[str, Any] = {"url": checkout.as_uri(), "dir_info": {}}
    monkeypatch.setattr(metadata, "distribution", Installed(record))
    assert install_command("sim", "plot") == f"pip install '{checkout}[sim,plot]'"
    record["dir_info"]["editable"] = True
    assert install_command("mqtt") == f"pip install --editable '{checkout}[mqtt]'"


def test_a_wheel_is_named_while_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "veilsum-1-py3-none-any.whl"
    wheel.touch()
    monkeypatch.setattr(metadata, "distribution", Installed({"url": wheel.as_uri()}))
    assert install_command("agents") == f"pip install '{wheel}[agents]'"
    wheel.unlink()  # pip then completes the installed copy
    assert install_command("agents") == "pip install 'veilsum[agents]'"


def test_a_release_of_an_index_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "distribution", Installed())
    assert install_command("agents") == "pip install 'veilsum[agents]'"


def test_source_on_the_path_names_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    checkout = Path(_extras.__file__).parents[2]
    assert install_command("sim") == f"pip install '{checkout}[sim]'"


def test_errors_name_that_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_extras, "install_command", lambda *extras: f"get {extras}")
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(MissingExtraError, match=r"get \('solvers',\)"):
        _extras.load("cvxpy")
    with pytest.raises(MissingExtraError, match=r"get \('solvers',\), or do without"):
        _extras.require("this", "solvers", otherwise="do without")
