"""A member that never comes back, with real ledgers: one charge each, and the mean of the others."""

from dataclasses import replace
from typing import Any

import pytest

from tests.agents.runtime.test_duplicate_releases import DEVICE, TERMS, Deployment
from veilsum.agents.ledger import Ledger, read_ledger, verify
from veilsum.privacy.accounting import Budget

LOSING = replace(TERMS, quorum=2, lost_after=0.8, rounds=1500)


def test_the_others_begin_anew_with_the_releases_there_are(tmp_path: Any) -> None:
    site = Deployment(tmp_path, LOSING)
    try:
        assert site.run(lambda: all(n.agents[k].protocol.round > 2 for k, n in site.nodes.items()))
        site.nodes.pop("2").close()
        assert site.run(site.done, seconds=40)
        done = [site.nodes[k].agents[k].done for k in "01"]
        released = [site.nodes[k].agents[k].ledger.released()[0] for k in "01"]
    finally:
        site.close()
    mean = sum(r.sums[0] for r in released) / sum(r.weight for r in released)
    for one in done:
        assert one.reason == "rounds"
        assert one.coverage.sentence() == "readings of 2 of 3 members, 1 missing: 2"
        assert one.estimate[0] == pytest.approx(mean, abs=1e-9)
    for label in "01":
        path = tmp_path / f"{label}.ledger"
        assert verify(path).ok
        contents = read_ledger(path)
        assert contents.incarnation == 2
        assert [entry.reading for entry in contents.entries] == [1]
        assert contents.status.spent.epsilon == 1.0


def test_a_new_incarnation_and_its_state_are_written_together(tmp_path: Any) -> None:
    path = tmp_path / "0.ledger"
    with Ledger.open(path, TERMS, "0", Budget(1.0), device=DEVICE["0"]) as ledger:
        ledger.save(b"old")
        assert ledger.new_incarnation(b"new") == 2
        assert ledger.resume() == (b"new", 2)
    with Ledger.open(path, TERMS, "0", Budget(1.0), device=DEVICE["0"]) as ledger:
        assert ledger.resume() == (b"new", 2)
        assert ledger.new_incarnation() == 3
        assert ledger.resume() == (None, 3)
