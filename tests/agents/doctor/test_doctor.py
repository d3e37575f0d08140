"""`murmura doctor`: a good setup passes, and one broken setup for everything that it checks."""

import datetime as dt
import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from murmura.agents.config import problem_and_manifest
from murmura.agents.doctor import CheckOutcome, CheckResult, examine
from murmura.agents.doctor.examination import CHECKS
from murmura.agents.ledger import Ledger
from murmura.agents.pki import Authority
from murmura.agents.results import half_width
from murmura.cli.app import app
from murmura.scenario import Scenario
from murmura.theory import precision
from tests.agents.config.setups import READINGS, authority, write_setup
from tests.agents.doctor.broken import CASES, Broken, replace_in

Setup = Callable[..., Path]
FAILURE, WARNING, OK = CheckOutcome.FAILURE, CheckOutcome.WARNING, CheckOutcome.OK
SECRET = [cell for line in READINGS.splitlines()[1:] for cell in line.split(",")[1:]]


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A folder in which nothing is wrong."""
    write_setup(tmp_path, keys=True)
    replace_in(tmp_path / "scenario.toml", "epsilon = 1.0", "epsilon = 20.0")
    replace_in(tmp_path / "agent.toml", "epsilon = 1.0", "epsilon = 20.0")
    return tmp_path


def results(folder: Path, **options: Any) -> list[CheckResult]:
    report = examine(folder / "agent.toml", **({"offline": True} | options))
    text = json.dumps(report.to_json())
    assert not [secret for secret in SECRET if secret in text]
    return list(report.results)


def bad(found: list[CheckResult]) -> list[CheckResult]:
    return [result for result in found if result.outcome is not OK]


def test_a_good_setup_passes_every_check(good: Path) -> None:
    found = results(good)
    assert bad(found) == []
    assert {r.check for r in found} == {name for name, _ in CHECKS} - {"reachable"}
    done = CliRunner().invoke(app, ["doctor", str(good / "agent.toml"), "--offline"])
    assert done.exit_code == 0, done.output
    assert done.output.endswith("checks: 14 ok, 0 warnings, 0 failures\n")
    assert sorted(path.name for path in good.iterdir()) == [
        "agent.toml", "keys", "links.csv", "readings.csv", "scenario.toml"
    ]  # nothing was made  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_is_broken_is_found_and_nothing_else(
    good: Path, case: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.break_it(good, monkeypatch)
    now = dt.datetime.now(dt.UTC) + dt.timedelta(days=case.days)
    found = results(good, now=now, research=case.research)
    named = [r for r in bad(found) if r.check == case.check]
    assert named, bad(found)
    assert named[0].outcome is case.outcome, named
    assert case.says in str(named[0])
    assert {r.check for r in bad(found)} <= {case.check, *case.also}


def test_every_check_has_a_broken_setup() -> None:
    assert {case.check for case in CASES} | {"reachable"} == {name for name, _ in CHECKS}


@pytest.mark.parametrize(("fails", "code"), [(False, 0), (True, 1)])
@pytest.mark.parametrize("words", [["doctor", "--offline"], ["agent", "--check"]])
def test_the_exit_code_says_whether_something_failed(
    good: Path, words: list[str], fails: bool, code: int
) -> None:
    """A warning alone is no failure."""
    replace_in(good / "scenario.toml", "epsilon = 20.0", "epsilon = 1.0")
    if fails:
        replace_in(good / "agent.toml", "epsilon = 20.0", "epsilon = 0.5")
    done = CliRunner().invoke(app, [words[0], str(good / "agent.toml"), *words[1:]])
    assert done.exit_code == code, done.output
    assert (
        "warning accuracy: the 95% interval of an estimate, about +- 100, covers all of"
        in done.output
    )
    assert ("failure budget" in done.output) == fails
    if words[0] == "agent":
        assert "manifest " in done.output


def test_json_is_all_of_stdout(good: Path) -> None:
    done = CliRunner().invoke(app, ["doctor", str(good / "agent.toml"), "--offline", "--json"])
    said = json.loads(done.stdout)
    assert said["healthy"] is True
    assert said["agent"] == "north"
    assert len(said["manifest"]) == 64
    assert {check["outcome"] for check in said["checks"]} == {"ok"}
    (good / "readings.csv").unlink()
    done = CliRunner().invoke(app, ["doctor", str(good / "agent.toml"), "--offline", "--json"])
    assert done.exit_code == 1
    assert json.loads(done.stdout)["healthy"] is False


class Answering(NamedTuple):
    """A neighbour that answers at a port."""

    port: int
    close: Callable[[], None]


def answering(name: str, home: Path) -> Answering:
    """A TLS server with the certificate of a device, that wants one of the same authority."""
    import ssl
    import threading

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(home / f"{name}.pem", home / f"{name}.key")
    context.load_verify_locations(home / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(10)

    def serve() -> None:
        while True:
            try:
                plain, _ = server.accept()
            except OSError:
                return
            with plain:
                try:
                    with context.wrap_socket(plain, server_side=True) as link:
                        link.recv(1)
                except OSError:
                    continue

    thread = threading.Thread(target=serve)
    thread.start()

    def close() -> None:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()

    return Answering(server.getsockname()[1], close)


def reached(folder: Path, port: int) -> CheckResult:
    text = (folder / "agent.toml").read_text().replace("127.0.0.1:7448", f"127.0.0.1:{port}")
    (folder / "agent.toml").write_text(text)
    (found,) = [r for r in results(folder, offline=False) if r.check == "reachable"]
    return found


def test_a_neighbour_that_answers_is_reached(good: Path) -> None:
    east = answering("east", authority())
    try:
        found = reached(good, east.port)
    finally:
        east.close()
    assert found.outcome is OK, found


def test_a_neighbour_with_another_name_is_a_failure(good: Path) -> None:
    north = answering("north", authority())
    try:
        found = reached(good, north.port)
    finally:
        north.close()
    assert found.outcome is FAILURE
    assert "a certificate for 'north' is presented" in found.found


def test_a_neighbour_of_another_authority_is_a_failure(good: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    Authority.create(other).issue("east", ["127.0.0.1"])
    east = answering("east", other)
    try:
        found = reached(good, east.port)
    finally:
        east.close()
    assert found.outcome is FAILURE
    assert "its certificate is not accepted" in found.found


def test_a_neighbour_that_does_not_answer_is_a_warning_and_a_name_without_address_a_failure(
    good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    found = reached(good, port)
    assert found.outcome is WARNING
    assert "does not answer: Connection refused" in found.found

    def unknown(*_: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", unknown)
    found = reached(good, port)
    assert found.outcome is FAILURE
    assert "there is no address for 127.0.0.1" in found.found


def test_a_port_in_use_is_a_failure(good: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        replace_in(good / "agent.toml", "127.0.0.1:0", f"127.0.0.1:{port}")
        (found,) = bad(results(good))
    assert found.check == "ports"
    assert found.outcome is FAILURE
    assert "Address already in use" in found.found
    assert bad(results(good)) == []


def test_a_ledger_in_use_is_found_and_left_alone(good: Path) -> None:
    from murmura.agents.config import Setup as Loaded

    setup = Loaded.load(good / "agent.toml")
    key, device = setup.ledger_key(), setup.device_secret()
    path = good / "north.ledger"
    with Ledger.open(path, setup.manifest, "north", setup.budget, key=key, device=device):
        (found,) = bad(results(good))
        assert found.check == "ledger"
        assert found.outcome is FAILURE
        assert "the agent runs already" in found.found
    before = {p.name: p.read_bytes() for p in good.glob("north.ledger*")}
    (found,) = [r for r in results(good) if r.check == "ledger"]
    assert found.outcome is OK
    assert "is whole, with 0 releases, epsilon = 20 left" in found.found
    assert {p.name: p.read_bytes() for p in good.glob("north.ledger*")} == before


def test_readings_are_counted_and_not_shown(good: Path) -> None:
    rows = [f"{k},{50 + (70 if k % 4 == 0 else 0) + k / 1000}" for k in range(1, 2001)]
    (good / "readings.csv").write_text("hour,load\n" + "\n".join(rows) + "\n")
    (found,) = bad(results(good))
    assert found.outcome is WARNING
    assert "250 of the first 1,000 readings lie outside the public bounds" in found.found
    text = json.dumps(examine(good / "agent.toml", offline=True).to_json())
    assert not [row for row in rows if row.split(",")[1] in text]


def test_a_copy_elsewhere_is_the_same_network(good: Path, tmp_path: Path) -> None:
    """The manifest's hash depends on the scenario only, so sites can compare it."""
    copy = tmp_path / "copy"
    shutil.copytree(good, copy, ignore=lambda *_: ["copy"])
    one, two = (examine(folder / "agent.toml", offline=True) for folder in (good, copy))
    assert one.manifest == two.manifest
    replace_in(copy / "scenario.toml", "rounds = 60", "rounds = 61")
    assert examine(copy / "agent.toml", offline=True).manifest != one.manifest


def test_the_accuracy_is_the_one_that_the_agent_will_state(good: Path) -> None:
    """Of three Laplace draws: a normal quantile would state less than 95% needs."""
    problem, manifest = problem_and_manifest(Scenario.load(good / "scenario.toml"))
    (stated,) = half_width(manifest, problem.family, label="north")
    planned = precision(problem)
    assert planned is not None
    assert f"{planned.half_width:.3g}" != f"{stated:.3g}"
    (found,) = [result for result in results(good) if result.check == "accuracy"]
    assert f"about +- {stated:.3g} (95%)" in str(found)
