"""The wall clock is for logs, certificates and a ledger's first time: stepping it moves nothing."""

import ast
import io
import json
import time
from pathlib import Path
from typing import Any

import veilsum.agents
from tests.agents.runtime.test_duplicate_releases import Deployment
from veilsum.agents.ledger import read_ledger

DAY = 86_400.0
WALL = {"time", "localtime", "gmtime", "now", "utcnow", "today"}
MAY = {
    "examination.py": {"now"},  # the doctor looks at certificates
    "outcomes.py": {"now"},
    "rotation.py": {"time"},  # the age of a rotated file
    "clock.py": {"time"},
    "log.py": {"time", "gmtime"},
    "metrics.py": {"time"},
    "observability.py": {"time"},
    "authority.py": {"now"},
    "certificates.py": {"now"},
    "reporter.py": {"time"},
    "schedule.py": {"gmtime"},  # names a slot in a report
    "status.py": {"time"},
    "statuses.py": {"time"},  # how long ago, on a screen
    "trust.py": {"time"},  # the end of a certificate
    "watch.py": {"time"},  # and how long until then
    "publisher.py": {"time"},  # an observer's link ends with its certificate
    "watcher.py": {"time"},  # when a site was heard, for people
}


def test_a_clock_that_jumps_while_agents_run_changes_nothing_but_time_stamps(
    tmp_path: Any, monkeypatch: Any
) -> None:
    usual, calls = time.time, iter(range(10**9))
    jumps = (0.0, -30 * 365 * DAY, 30 * 365 * DAY)
    monkeypatch.setattr(time, "time", lambda: usual() + jumps[next(calls) % 3])
    site = Deployment(tmp_path)
    began = time.monotonic()
    assert site.run(site.done)
    assert time.monotonic() - began < 20
    site.close()
    assert {site.reason(label) for label in "012"} == {"rounds"}
    stamps = {json.loads(line)["time"][:2] for line in site.logs["0"].getvalue().splitlines()}
    assert stamps  # whatever they say
    assert all(read_ledger(tmp_path / f"{k}.ledger").status.spent.epsilon == 1.0 for k in "012")


def test_a_clock_set_back_or_forward_between_starts_draws_nothing_anew(
    tmp_path: Any, monkeypatch: Any
) -> None:
    usual, before = time.time, None
    for shift in (0.0, -20 * 365 * DAY, 20 * 365 * DAY):
        monkeypatch.setattr(time, "time", lambda shift=shift: usual() + shift)
        site = Deployment(tmp_path)
        assert site.run(site.done)
        site.close()
        found = [read_ledger(tmp_path / f"{k}.ledger").entries for k in "012"]
        assert before in (None, found)
        before = found


def test_no_other_part_of_an_agent_asks_for_the_wall_clock() -> None:
    home = Path(veilsum.agents.__file__).parent
    for path in home.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in WALL:
                of = ast.unparse(node.value)
                if of in ("time", "dt.datetime", "datetime", "datetime.datetime"):
                    assert node.attr in MAY.get(path.name, ()), f"{path.name}: {of}.{node.attr}"


def test_a_log_line_has_the_time_of_the_wall(monkeypatch: Any) -> None:
    from veilsum.agents.runtime import Log

    monkeypatch.setattr(time, "time", lambda: 0.25)
    out = io.StringIO()
    Log(out).write("started", "0", "x")
    assert json.loads(out.getvalue())["time"] == "1970-01-01T00:00:00.250Z"
