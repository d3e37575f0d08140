"""`veilsum doctor`: a good setup passes, and one broken setup for everything that it checks."""

import datetime as dt
import json
import shutil
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from tests.agents.config.setups import READINGS, authority, write_masked_setup, write_setup
from tests.agents.doctor.broken import CASES, MASKED_CASES, Broken, replace_in
from tests.agents.ledger.session_world import entry, value
from veilsum.agents.config import Setup as AgentSetup
from veilsum.agents.doctor import CheckOutcome, CheckResult, examine
from veilsum.agents.doctor.examination import CHECKS
from veilsum.agents.ledger import Ledger
from veilsum.agents.masked.terms import MaskedTerms
from veilsum.agents.pki import Authority
from veilsum.agents.results import half_width
from veilsum.agents.scenario_terms import problem_and_manifest
from veilsum.cli.app import app
from veilsum.privacy import Budget, BudgetExceeded, PrivacyEvent
from veilsum.scenario import Scenario
from veilsum.theory import precision

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


def test_who_may_watch_is_said(good: Path) -> None:
    allowed = '[observers]\nallow = ["control-room"]\n'
    (good / "agent.toml").write_text((good / "agent.toml").read_text() + allowed)
    found = results(good)
    assert bad(found) == []
    (said,) = [result.found for result in found if result.check == "observers"]
    assert said == "control-room may read at tls/127.0.0.1:0: its estimate and how it works"
    assert len([result for result in found if result.check == "ports"]) == 2
    replace_in(good / "agent.toml", "tls/127.0.0.1:0", "tls/127.0.0.1:7447")
    (said,) = [result.found for result in results(good) if result.check == "observers"]
    assert "at tls/127.0.0.1:8447" in said


def test_an_estimate_without_a_proved_guarantee_is_not_for_observers(good: Path) -> None:
    """As the agent does it: `AgentStatus.public` withholds the estimate."""
    allowed = '[observers]\nallow = ["control-room"]\n'
    (good / "agent.toml").write_text((good / "agent.toml").read_text() + allowed)
    path = good / "scenario.toml"
    replace_in(path, 'name = "normal"\nsigma = 10.0', 'name = "log-normal"\nsigma = 1.0')
    replace_in(path, "bounds = [0.0, 100.0]", "bounds = [0.5, 100.0]")
    replace_in(path, "draw = { mu = 50.0 }", "draw = { mu = 1.0 }")
    published = 'delta = 0.01\nradius = 1.0\nsensitivity = "smooth-as-published"'
    replace_in(path, "radius = inf", published)
    replace_in(path, "epsilon = 20.0", "epsilon = 1.0")
    replace_in(good / "agent.toml", "epsilon = 20.0", "epsilon = 1.0\ndelta = 0.01")
    found = results(good, research=True)
    (said,) = [result.found for result in found if result.check == "observers"]
    assert said.endswith(": how it works, not its estimate")


def test_a_good_setup_passes_every_check(good: Path) -> None:
    found = results(good)
    assert bad(found) == []
    assert {r.check for r in found} == {name for name, _ in CHECKS} - {
        "reachable",
        "signing",
        "observers",
    }
    done = CliRunner().invoke(app, ["doctor", str(good / "agent.toml"), "--offline"])
    assert done.exit_code == 0, done.output
    assert done.output.endswith("checks: 15 ok, 0 warnings, 0 failures\n")
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


def without_certificates(folder: Path) -> None:
    """A site with `[membership]` on this machine only: no key, no certificate, no authority."""
    shutil.rmtree(folder / "keys")
    text = (folder / "agent.toml").read_text() + '\n[membership]\nfile = "epoch.json"\n'
    (folder / "agent.toml").write_text(text)
    replace_in(folder / "agent.toml", "tls/", "tcp/")


def test_without_certificates_no_epoch_is_looked_for(good: Path) -> None:
    without_certificates(good)
    found = results(good, insecure=True)
    (said,) = [result for result in found if result.check == "membership"]
    assert (said.outcome, said.found) == (OK, "epoch 1 with 3 members, as the scenario says")
    assert [result.check for result in bad(found)] == ["keys"]  # a warning: for experiments only


def test_with_certificates_the_authority_must_be_there_for_an_epoch(good: Path) -> None:
    """What the check above leaves out: without the authority no epoch can ever be adopted."""
    without_certificates(good)
    (said,) = [result for result in results(good) if result.check == "membership"]
    assert said.outcome is FAILURE
    assert "ca.pem" in str(said)


@pytest.fixture
def masked(tmp_path: Path) -> Path:
    """A folder of a masked sum in which nothing is wrong."""
    write_masked_setup(tmp_path, keys=True)
    for name in ("scenario.toml", "agent.toml"):
        replace_in(tmp_path / name, "epsilon = 1.0", "epsilon = 20.0")
    return tmp_path


def test_a_good_setup_of_a_masked_sum_passes_every_check(masked: Path) -> None:
    found = results(masked)
    assert bad(found) == []
    assert {r.check for r in found} == {name for name, _ in CHECKS} - {"reachable", "observers"}
    (stated,) = [r.found for r in found if r.check == "guarantee"]
    assert "up to 1 of the other members together" in stated


@pytest.mark.parametrize("case", MASKED_CASES, ids=lambda case: case.id)
def test_what_is_broken_in_a_masked_sum_is_found_and_nothing_else(
    masked: Path, case: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_what_is_broken_is_found_and_nothing_else(masked, case, monkeypatch)


def test_a_denied_neighbour_is_removed_by_commands_that_are_named(
    good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (case,) = [case for case in CASES if case.id == "a neighbour that is denied"]
    case.break_it(good, monkeypatch)
    (named,) = bad(results(good))
    assert "`veilsum members remove east`, then `veilsum members rollout`" in named.remedy


def test_all_attempts_of_a_masked_sum_are_to_be_paid_for(masked: Path) -> None:
    """A query of two attempts at 10 each needs 20: a budget of 19 is refused before any draw."""
    replace_in(masked / "links.csv", "east,west\n", "east,west\nwest,south\n")
    replace_in(masked / "scenario.toml", "colluders = 1", "colluders = 0\nabsent = 1\nattempts = 2")
    more = f'south = "{"cd" * 32}"\n'
    (masked / "signing-keys.toml").write_text((masked / "signing-keys.toml").read_text() + more)
    replace_in(masked / "agent.toml", "epsilon = 20.0", "epsilon = 19.0")
    (named,) = bad(results(masked))
    assert "a query of up to 2 attempts costs epsilon = 20" in str(named)
    assert "raise [budget] to epsilon = 20, what a query of up to 2 attempts costs" in named.remedy
    replace_in(masked / "agent.toml", "epsilon = 19.0", "epsilon = 20.0")
    assert bad(results(masked)) == []


def test_the_next_query_must_be_paid_for_by_what_the_ledger_has_left(masked: Path) -> None:
    """What `begin_query` would say: a query of another run has left 11 of 21, and 20 are needed."""
    test_all_attempts_of_a_masked_sum_are_to_be_paid_for(masked)
    replace_in(masked / "agent.toml", "epsilon = 20.0", "epsilon = 21.0")
    setup = AgentSetup.load(masked / "agent.toml")
    budget, nonce = Budget(21.0), setup.manifest.nonce
    earlier = replace(setup.manifest, nonce="0" * len(nonce))
    with Ledger.open(
        masked / "north.ledger", earlier, "north", budget, key=setup.ledger_key(),
        device=setup.device_secret(),
    ) as made:  # fmt: skip
        terms = MaskedTerms.of(earlier, setup.problem.family)
        sessions, cost = made.sessions(terms), PrivacyEvent(10.0)
        sessions.begin_query(1, cost, 2, last=1)
        sessions.open(1, entry(terms, 1))
        sessions.prepare(1, value(entry(terms, 1)))
        sessions.ready(1, bytes(32))
        sessions.send(1)
        sessions.conclude_query(1, "sum", None)
        assert made.remaining.epsilon == 11.0
        with pytest.raises(BudgetExceeded):
            sessions.begin_query(2, cost, 2, last=2)
    (named,) = bad(results(masked))
    assert (named.check, named.outcome) == ("budget", FAILURE)
    assert "the ledger does not admit the next query" in named.found
    assert "has spent epsilon = 10" in named.found
    assert "veilsum ledger amend agent.toml --raise" in named.found
    replace_in(masked / "scenario.toml", f'nonce = "{nonce}"', f'nonce = "{"0" * len(nonce)}"')
    assert bad(results(masked)) == []  # of the run that has its sum, nothing more is asked


def test_every_check_has_a_broken_setup() -> None:
    cases = [*CASES, *MASKED_CASES]
    assert {case.check for case in cases} | {"reachable"} == {name for name, _ in CHECKS}


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
    from veilsum.agents.config import Setup as Loaded

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


def test_a_row_without_end_is_counted_only_where_the_agent_reads_it(good: Path) -> None:
    (good / "readings.csv").write_text("hour,load\n1,42.5\n2,forty")
    warned, counted = (r for r in results(good) if r.check == "readings")
    assert warned.outcome is WARNING
    assert counted.outcome is OK
    assert "the first 1 can be released" in counted.found
    replace_in(good / "agent.toml", 'column = "load"', 'column = "load"\nfollow = false')
    (found,) = (r for r in results(good) if r.check == "readings")
    assert found.outcome is FAILURE
    assert "1 of the first 2 readings cannot be used" in found.found


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
