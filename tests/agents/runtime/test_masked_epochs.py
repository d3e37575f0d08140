"""Masked sums in a new epoch: other members, new pins and nonce, the readings that were in none."""

import itertools
from dataclasses import replace
from typing import Any

import pytest

from tests.agents.runtime.masked_sites import BUDGET, Sites, terms
from veilsum.agents.ledger import Ledger, read_ledger
from veilsum.agents.ledger import opening as opening_module
from veilsum.agents.ledger.records import release_terms, same_terms
from veilsum.errors import LedgerError

STREAM = 'name = "masked-learn", rounds = 12'
BATCHES = ", batches = {growth = 2.0, longest = 4}"
COUNT = 30


def readings(size: int, count: int = COUNT) -> dict[str, list[float]]:
    return {str(k): [1.0 + k + n / 100 for n in range(count)] for k in range(size)}


def epoch(size: int, number: int, privacy: str = "") -> Any:
    manifest, problem, keys = terms(size, privacy, STREAM, rounds=0, epoch=number, gathering=0.3)
    return replace(manifest, nonce=f"{number:02x}" * 16), problem, keys


def run_until(sites: Any, queries: int) -> None:
    sites.start_all()
    sites.until(lambda: all(sites.agent(k).protocol.round >= queries for k in sites.readings))


def stop(sites: Any) -> None:
    for label in list(sites.nodes):
        sites.stop(label)


@pytest.mark.parametrize("privacy", ["", BATCHES])
@pytest.mark.parametrize("device", [None, b"d" * 32])
def test_a_member_joins_a_stream_of_masked_sums(tmp_path: Any, privacy: str, device: Any) -> None:
    first = Sites(tmp_path, epoch(4, 1, privacy), readings(4), device=device)
    run_until(first, 4)
    stop(first)
    before = {label: read_ledger(tmp_path / f"{label}.ledger").entries for label in "0123"}
    used = {label: max(entry.last for entry in before[label]) for label in "0123"}
    second = Sites(tmp_path, epoch(5, 2, privacy), readings(5), device=device)
    run_until(second, 3)
    found = second.agent("0").protocol.coverage
    assert set(found.contributing) == set("01234")
    stop(second)
    for label in "0123":
        now = read_ledger(tmp_path / f"{label}.ledger").entries
        assert now[: len(before[label])] == before[label]
        later = now[len(before[label]) :]
        assert later
        assert all(entry.last - entry.readings >= used[label] for entry in later)  # none twice
        taken = sorted({(entry.last - entry.readings, entry.last) for entry in now})
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(taken))
        assert taken[0][0] == 0
        assert all(a[1] == b[0] for a, b in itertools.pairwise(taken))  # none left out


def test_a_member_goes(tmp_path: Any) -> None:
    first = Sites(tmp_path, epoch(5, 1, BATCHES), readings(5), device=b"d" * 32)
    run_until(first, 3)
    stop(first)
    second = Sites(tmp_path, epoch(4, 2, BATCHES), readings(4), device=b"d" * 32)
    run_until(second, 3)
    assert set(second.agent("0").protocol.coverage.contributing) == set("0123")
    stop(second)


def test_a_ledger_is_for_the_terms_of_release_whoever_the_members_are(tmp_path: Any) -> None:
    (four, *_), (five, *_) = epoch(4, 1), epoch(5, 2)
    assert release_terms(four) != release_terms(five)
    assert same_terms(release_terms(four), release_terms(five))
    Ledger.open(tmp_path / "0.ledger", four, "0", BUDGET).close()
    with Ledger.open(tmp_path / "0.ledger", five, "0", BUDGET) as ledger:
        assert ledger.identity.terms == release_terms(four)  # what it was made for
    other = replace(five, epsilon=2.0, epoch=3)
    assert not same_terms(release_terms(four), release_terms(other))
    with pytest.raises(LedgerError, match="the term epsilon"):
        Ledger.open(tmp_path / "0.ledger", other, "0", BUDGET)
    assert opening_module.NEVER_CHANGE == ("agent", "terms")
