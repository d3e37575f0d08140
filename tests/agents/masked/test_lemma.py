"""The lemma of the masked sum, by enumeration: what published values reveal are closed sums.

Masks take all values of the subgroup {0, 2^64/m, 2 2^64/m, ...} of the modulus, in which `pad`, the
code that agents run, adds them up: uniform masks of a small modulus m, a power of two, for every
roster and every set of members that publish.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain, combinations, product
from typing import Any

import pytest

from veilsum.agents.masked import masks
from veilsum.agents.masked.masks import EphemeralKey, pad, to_words
from veilsum.privacy.masked import MaskedParameters

VALUES = {"a": 5, "b": -3, "c": 11, "d": 2, "e": 8}  # x + eta, the honest members' secrets


def subsets(labels: Any, least: int = 0) -> Iterator[tuple[str, ...]]:
    sizes = range(least, len(labels) + 1)
    return chain.from_iterable(combinations(labels, size) for size in sizes)


class Enumerated:
    """`pad` with masks from a table instead of keys."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, m: int, missing: Any = ()) -> None:
        self.m, self.missing = m, {frozenset(pair) for pair in missing}
        self.table: dict[frozenset[str], int] = {}
        self.keys = {label: EphemeralKey() for label in "abcdex"}
        monkeypatch.setattr(EphemeralKey, "exchange", lambda *_: b"")
        monkeypatch.setattr(masks, "roster_digest", lambda *_: b"")
        monkeypatch.setattr(masks, "pair_info", lambda *a: (a[-2][0] + a[-1][0]).encode())
        monkeypatch.setattr(masks, "stream", self.stream)

    def stream(self, _: bytes, info: bytes, __: int) -> Any:
        step = self.table.get(frozenset(info.decode()), 0)
        return to_words([step * 2**64 // self.m])

    def published(self, roster: tuple[str, ...], publishers: tuple[str, ...]) -> tuple[int, ...]:
        public = {label: masks.Participant(self.keys[label].public) for label in roster}
        return tuple(
            int((to_words([VALUES[one]]) + pad(self.keys[one], one, public, b"", b"", 1))[0])
            for one in publishers
        )

    def distribution(
        self, roster: tuple[str, ...], honest: str, publishers: tuple[str, ...]
    ) -> Counter[tuple[int, ...]]:
        """Over all masks of honest pairs; those with colluders are known, and 0."""
        pairs = [
            frozenset(pair)
            for pair in combinations([one for one in roster if one in honest], 2)
            if frozenset(pair) not in self.missing
        ]
        found: Counter[tuple[int, ...]] = Counter()
        for steps in product(range(self.m), repeat=len(pairs)):
            self.table = dict(zip(pairs, steps, strict=True))
            found[self.published(roster, publishers)] += 1
        return found

    def claimed(
        self, roster: tuple[str, ...], honest: str, publishers: tuple[str, ...]
    ) -> set[tuple[int, ...]]:
        """All vectors of v + subgroup, with the sum of v if all honest members publish."""
        unit = 2**64 // self.m
        closed = set(publishers) == {one for one in roster if one in honest}
        return {
            tuple(
                (VALUES[one] + k * unit) % 2**64 for one, k in zip(publishers, steps, strict=True)
            )
            for steps in product(range(self.m), repeat=len(publishers))
            if not closed or sum(steps) % self.m == 0
        }


def holds(found: Counter[tuple[int, ...]], claimed: set[tuple[int, ...]]) -> bool:
    return set(found) == claimed and len(set(found.values())) == 1


CASES = [
    ("abc", 2),
    ("abc", 8),
    ("abcd", 2),
    pytest.param("abcd", 4, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("honest", "m"), CASES)
def test_published_values_are_uniform_given_their_closed_sum(
    honest: str, m: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Enumerated(monkeypatch, m)
    cases = 0
    for roster in subsets((*honest, "x"), least=2):
        inside = [one for one in roster if one in honest]
        for publishers in subsets(inside, least=1):
            found = world.distribution(roster, honest, publishers)
            assert holds(found, world.claimed(roster, honest, publishers)), (roster, publishers)
            cases += 1
    assert cases > 30


class Sessions(Enumerated):
    """Two sessions at once: a mask is as new as what its key is derived from, by the agents' code."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, bound: bool = True) -> None:
        derived, digest = masks.pair_info, masks.roster_digest
        super().__init__(monkeypatch, 2)
        monkeypatch.setattr(masks, "roster_digest", digest)
        monkeypatch.setattr(
            masks,
            "pair_info",
            derived if bound else lambda manifest, _, __, *ends: derived(manifest, b"", b"", *ends),
        )

    def stream(self, _: bytes, info: bytes, __: int) -> Any:
        step = self.steps[self.infos.setdefault(info, len(self.infos))]
        return to_words([step * 2**63])

    def publish(self, sessions: Any) -> tuple[int, ...]:
        """What the publishers of both sessions publish, one after the other."""
        found = []
        for sid, (roster, publishers) in sessions.items():
            public = {label: masks.Participant(self.keys[label].public) for label in roster}
            found += [
                int((to_words([VALUES[one]]) + pad(self.keys[one], one, public, b"", sid, 1))[0])
                for one in publishers
            ]
        return tuple(found)

    def joint(self, sessions: Any) -> Counter[tuple[int, ...]]:
        """Over all masks that are derived from something different."""
        self.infos: dict[bytes, int] = {}
        self.steps: Any = Counter()
        self.publish(sessions)
        found: Counter[tuple[int, ...]] = Counter()
        for steps in product(range(2), repeat=len(self.infos)):
            self.steps = steps
            found[self.publish(sessions)] += 1
        return found


PAIRS = [("abc", "abc"), ("abc", "bcd"), ("abc", "ab")]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_two_sessions_reveal_the_closed_sum_of_each_and_nothing_across(
    first: str, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every member publishes in one of them (R1), in all ways; masks are bound to sid and rho (R4)."""
    world = Sessions(monkeypatch)
    for publishers in subsets(first, least=1):
        for others in subsets([one for one in second if one not in publishers], least=1):
            one = world.claimed(tuple(first), "abcd", publishers)
            two = world.claimed(tuple(second), "abcd", others)
            found = world.joint({b"1": (first, publishers), b"2": (second, others)})
            assert holds(found, {x + y for x in one for y in two}), (publishers, others)


def test_masks_that_serve_two_sessions_close_a_sum_across_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Weakened variant: neither session is complete, and the sum of all three can be read."""
    found = Sessions(monkeypatch, bound=False).joint(
        {b"1": ("abc", ("a", "b")), b"2": ("abc", ("c",))}
    )
    assert {sum(values) % 2**64 for values in found} == {sum(VALUES[one] for one in "abc")}


def test_masks_on_a_sparse_graph_leak_the_sums_of_its_components(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Weakened variant: masks only along the path a b x c d, whose middle colludes."""
    world = Enumerated(monkeypatch, 4, missing=["ac", "ad", "bc", "bd"])
    roster = ("a", "b", "c", "d", "x")
    found = world.distribution(roster, "abcd", ("a", "b", "c", "d"))
    assert not holds(found, world.claimed(roster, "abcd", ("a", "b", "c", "d")))
    assert {(z[0] + z[1]) % 2**64 for z in found} == {VALUES["a"] + VALUES["b"]}


def test_revealing_the_masks_of_a_dead_member_reads_its_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Weakened variant: c is declared dead and its masks are revealed, but its value was kept back."""
    world = Enumerated(monkeypatch, 4)
    roster = ("a", "b", "c")
    read = set()
    for steps in product(range(4), repeat=3):
        pairs = [frozenset(pair) for pair in combinations(roster, 2)]
        world.table = dict(zip(pairs, steps, strict=True))
        (kept_back,) = world.published(roster, ("c",))
        revealed = sum(world.table[frozenset(one + "c")] for one in "ab")
        read.add((kept_back + revealed * (2**64 // 4)) % 2**64)
    assert read == {VALUES["c"]}


@pytest.mark.parametrize("n", range(4, 9))
def test_a_closed_set_has_h_members_and_two_rosters_share_two_honest_ones(n: int) -> None:
    """For every n, c and d that are accepted: all rosters and all colluders, by their numbers."""
    for c, d in product(range(n), repeat=2):
        if n - c - 2 * d < 2:
            continue
        numbers = MaskedParameters(n, c, d, 1.0, 8)
        members = set(range(n))
        rosters = [members - set(left) for k in range(d + 1) for left in combinations(range(n), k)]
        colluders = [set(chosen) for chosen in combinations(range(n), c)][:20]
        for bad in colluders:
            assert min(len(roster - bad) for roster in rosters) >= numbers.honest
        some = rosters[:: max(1, len(rosters) // 12)] + rosters[-1:]
        for bad in colluders:
            assert min(len((f & g) - bad) for f in some for g in some) >= 2
