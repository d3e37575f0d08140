"""`veilsum agent --page`: what is refused before the agent starts."""

import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.cli.test_cli_agent import deployment
from veilsum._extras import install_command
from veilsum.cli.app import app


def agent(folder: Path, *words: str) -> Any:
    return CliRunner().invoke(app, ["agent", str(folder / "0.toml"), "--insecure", *words])


def test_a_port_in_use_is_an_error_before_the_agent_starts(tmp_path: Path) -> None:
    deployment(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = agent(tmp_path, "--page", f"127.0.0.1:{taken.getsockname()[1]}")
    assert done.exit_code == 1
    assert "cannot serve the page at 127.0.0.1" in done.output
    assert "choose another --page" in done.output
    assert not list(tmp_path.glob("0.ledger*")), "nothing was opened"


@pytest.mark.parametrize("place", ["0.0.0.0:0", "[::]:0", "192.0.2.7:8080"])
def test_beyond_loopback_insecure_is_refused(tmp_path: Path, place: str) -> None:
    deployment(tmp_path)
    done = agent(tmp_path, "--page", place)
    assert done.exit_code == 1
    assert "needs certificates of the fleet's authority" in done.output
    assert not list(tmp_path.glob("0.ledger*")), "nothing was opened"


def test_the_file_may_name_the_page_and_is_checked(tmp_path: Path) -> None:
    deployment(tmp_path)
    file = tmp_path / "0.toml"
    text = file.read_text()
    file.write_text(text + 'page = { address = "0.0.0.0:8080" }\n')
    assert "needs certificates" in agent(tmp_path).output
    for wrong in ("8080", "localhost", "http://127.0.0.1:8080"):
        file.write_text(text + f'page = {{ address = "{wrong}" }}\n')
        done = agent(tmp_path)
        assert done.exit_code == 1
        assert (
            'line 10: page.address: allowed: a host and a port, such as "127.0.0.1:8080"'
            in done.output
        )
    file.write_text(text)
    assert "is no address of a page" in agent(tmp_path, "--page", "127.0.0.1:99999").output


def test_without_the_extra_the_error_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment(tmp_path)
    for name in [name for name in sys.modules if name.startswith("veilsum.live")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = agent(tmp_path, "--page", "127.0.0.1:0")
    assert done.exit_code == 1
    assert install_command("live") in done.output
    assert not list(tmp_path.glob("0.ledger*")), "nothing was opened"
