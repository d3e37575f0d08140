"""The page of a ledger: what was really spent, and none of the released values."""

from __future__ import annotations

import math
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.agents.ledger.conftest import make_problem
from tests.agents.ledger.session_world import Steps, a_sum, made_terms
from tests.cli import test_cli_ledger
from tests.cli.test_cli_ledger import call
from tests.reports.test_sign_off import words
from veilsum.agents import Ledger, Manifest
from veilsum.agents.config_tables import BudgetTable
from veilsum.agents.ledger.limits import budget_limits
from veilsum.agents.ledger.report import _bounds
from veilsum.privacy import Budget

ledger_file = test_cli_ledger.path  # a fixture


def test_what_was_spent_is_on_the_page_and_no_value(ledger_file: Any, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    done = call("report", ledger_file, "--html", out)
    assert done.exit_code == 0, done.output
    page = out.read_text()
    said = words(page)
    assert "3 releases of 3 readings" in said
    assert "One reading epsilon = 0.25: whatever is seen is at most 1.29 times more likely" in said
    assert "All readings together epsilon = 0.75: whatever is seen is at most 2.12 times" in said
    assert "Left for the next reading epsilon = 0.25" in said
    assert "intact" in said
    assert "1.25" not in said, "a released value"
    assert "<script" not in page
    assert "default-src 'none'" in page
    refused = call("report", ledger_file, "--html", out)
    assert refused.exit_code == 2
    assert call("report", ledger_file, "--html", out, "--force").exit_code == 0


def test_a_changed_ledger_is_not_to_be_signed(ledger_file: Any, tmp_path: Path) -> None:
    with sqlite3.connect(ledger_file) as base:
        base.execute("UPDATE releases SET epsilon = 0.01 WHERE seq = 2")
    base.close()
    done = call("report", ledger_file, "--html", tmp_path / "page.html")
    assert done.exit_code == 1
    assert "NOT INTACT: do not sign." in words((tmp_path / "page.html").read_text())


def test_the_page_of_a_masked_ledger_has_queries_refunds_and_what_is_reserved(
    tmp_path: Path,
) -> None:
    manifest = Manifest.of(make_problem(), "town")
    file, terms = tmp_path / "0.ledger", made_terms(manifest)
    with Ledger.open(file, manifest, "0", Budget(1.0), per="day", refill="fixed") as made:
        steps = Steps(made.sessions(terms), terms, 7).begin(last=2, readings=2)
        steps.sent()
        steps.refund()
        hidden = steps.sent(1)
        made.sessions(terms).conclude_query(7, "sum", a_sum(7, 1))
        Steps(made.sessions(terms), terms, 8).begin(last=3)
    page = tmp_path / "page.html"
    assert call("report", file, "--html", page).exit_code == 0
    said = words(page.read_text(encoding="utf-8"))
    assert "Queries of a masked sum: 2 (1 open, 1 sum)" in said
    assert "Reserved by the open query epsilon = 0.25" in said
    assert "Left for the next reading epsilon = 0.5" in said
    assert "refund" in said
    assert "epsilon = 0.125 of query 7, attempt 1" in said
    assert "against as many colluding members as the manifest states" in said
    for secret in (*map(str, hidden.words), hidden.salt.hex(), hidden.rho.hex()):
        assert secret not in page.read_text(encoding="utf-8") or len(secret) < 3


def test_a_year_adds_up_and_the_budget_says_what_it_may_be(
    ledger_file: Any, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    call("report", ledger_file, "--html", page)
    said = words(page.read_text(encoding="utf-8"))
    assert "a year of the calendar epsilon = 0.75 (from 2026-01-01)" in said.replace(
        f"{datetime.now(UTC).year}-01-01", "2026-01-01"
    )
    assert "Per year" in said


def test_a_year_is_that_of_the_zone() -> None:
    last, first = (
        datetime(y, m, d, 23, 30, tzinfo=UTC) for y, m, d in ((2024, 12, 31), (2024, 1, 1))
    )
    start, end = _bounds("year", "UTC", last.timestamp())
    assert start == datetime(2024, 1, 1, tzinfo=UTC).timestamp()
    assert (end - start) / 86400 == 366
    assert _bounds("year", "UTC", first.timestamp()) == (start, end)
    east = _bounds("year", "Europe/Madrid", last.timestamp())  # there it is 2025 already
    assert datetime.fromtimestamp(east[0], UTC) == datetime(2024, 12, 31, 23, tzinfo=UTC)
    assert east[0] > start


def test_limits_of_a_budget_in_a_day_a_month_and_a_year() -> None:
    def most(**given: Any) -> list[float]:
        limits = budget_limits(BudgetTable(epsilon=2.0, **given))
        return [epsilon for epsilon, _ in limits.values()]

    assert most() == [2.0, 2.0, 2.0]  # for the whole stream
    assert most(per="month", refill="fixed") == [2.0, 2.0, 24.0]
    assert most(per="day", refill="rolling") == [2.0, 62.0, 732.0]
    assert most(unit="event") == [math.inf] * 3
