"""Agents of masked sums with ledgers on disk: older copies of them, restarts, and what status shows."""

import json
import shutil
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.agents.runtime.masked_sites import BUDGET, Sites, terms
from veilsum.agents.ledger import Ledger, read_ledger
from veilsum.agents.masked import links as links_module
from veilsum.agents.masked.remembered import OwnStatus
from veilsum.agents.runtime.status import StatusFile
from veilsum.cli.app import app

READINGS = {str(k): [1.0 + k] for k in range(5)}
ABSENT = ", absent = 1"


def copy_ledger(folder: Any, label: str, to: Any) -> None:
    """The whole of it, its lock included."""
    to.mkdir(exist_ok=True)
    for path in folder.glob(f"{label}.ledger*"):
        shutil.copy2(path, to / path.name)


@pytest.mark.parametrize("checks", [True, False])
def test_an_older_copy_of_a_ledger_is_found_out_by_neighbours_that_restarted(
    tmp_path: Any, checks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weakened: it takes part, and its ledger knows of one value where two were sent."""
    old = tmp_path / "old"
    made = terms(5, ABSENT, gathering=0.3)
    Ledger.open(tmp_path / "2.ledger", made[0], "2", BUDGET).close()
    copy_ledger(tmp_path, "2", old)
    Sites(tmp_path, made, READINGS).start_all().finish()
    copy_ledger(old, "2", tmp_path)
    if not checks:
        monkeypatch.setattr(OwnStatus, "judge", lambda *_: None)
        monkeypatch.setattr(links_module, "doubt", lambda *_: "")
    more = {label: [*values, 5.0] for label, values in READINGS.items()}
    sites = Sites(tmp_path, terms(5, ABSENT, gathering=0.3, epoch=2), more)
    sites.start_all().finish()
    assert {sites.agent(label).done.reason for label in "0134"} == {"sum"}
    assert len(read_ledger(tmp_path / "2.ledger").entries) == (0 if checks else 1)
    assert sites.agent("2").done.reason == ("rolled-back" if checks else "sum")
    if checks:
        assert "the ledger here has 0" in sites.said("rolled-back", "2")[0]
        assert sites.result("2").exit_code == 3


def test_the_records_of_a_sum_survive_restarts(tmp_path: Any) -> None:
    """Member 4 comes when the others have ended, and only one of them has started again."""
    made = terms(5, ABSENT, gathering=0.3)
    sites = Sites(tmp_path, made, READINGS)
    for label in "0123":
        sites.start(label)
    sites.finish()
    estimate = sites.agent("0").done.estimate
    sites.nodes.clear()
    sites.start("0")
    sites.start("4")
    sites.finish()
    assert sites.agent("4").done.reason == "sum"
    assert sites.agent("4").done.estimate == estimate
    assert sites.result("4").exit_code == 0
    assert not read_ledger(tmp_path / "4.ledger").entries


def test_the_reason_without_a_result_survives_restarts(tmp_path: Any) -> None:
    made = terms(5, ABSENT)
    with Ledger.open(tmp_path / "0.ledger", made[0], "0", BUDGET) as ledger:
        from veilsum.agents.masked.terms import MaskedTerms

        sessions = ledger.sessions(MaskedTerms.of(made[0], made[1].family))
        assert sessions.last_reason == ""
        sessions.conclude_query(1, "missed", None)
        assert sessions.last_reason == "missed"
    sites = Sites(tmp_path, made, READINGS)
    sites.start("0")
    sites.finish()
    assert sites.agent("0").done.reason == "missed"
    assert "no new query is needed" in sites.result("0").sentence()


def test_status_shows_the_stage_and_who_is_missing(tmp_path: Any) -> None:
    sites = Sites(tmp_path, terms(5, ABSENT, gathering=0.3), READINGS)
    for label in "012":
        sites.start(label)
    sites.until(lambda: sites.agent("0").query == 1)
    sites.until(lambda: len(sites.agent("0").protocol.coverage.absent) == 2)
    before = sites.nodes["0"].reporter.status(sites.agent("0"))
    assert before.state == "gathering"
    assert before.to_json()["coverage"]["absent"] == ["3", "4"]
    assert shown(tmp_path, before)[0] == "query 1 opened, attempt 1, view 1"
    assert "0: not there: 3, 4" in shown(tmp_path, before)[1]
    sites.start("3")
    sites.until(lambda: sites.done)
    after = sites.nodes["0"].reporter.status(sites.agent("0"))
    place = after.session
    assert place is not None
    sites.finish()
    assert (after.state, place.stage) == ("done", "concluded")
    assert shown(tmp_path, after)[0] == f"query 1 concluded, attempt 1, view {place.view}"
    assert place.view >= 1
    assert "0: not there: 4" in shown(tmp_path, after)[1]


def shown(folder: Any, status: Any) -> tuple[str, str]:
    """The session's cell in the table of `veilsum status`, and all that it prints."""
    from veilsum.agents.screens.statuses import _session

    path = folder / "0.ledger.status.json"
    StatusFile(path)(status)
    found = _session(json.loads(path.read_text())["session"])
    printed = CliRunner().invoke(app, ["status", str(path)]).output
    joined = " ".join(printed.replace("│", " ").split())
    assert "session" in joined
    assert found.split()[2].rstrip(",") in joined
    return found, printed
