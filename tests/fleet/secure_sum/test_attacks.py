"""Attacks on the secure sum, each against the shipped rules and against a weakened twin that it breaks.

The attack is the same code in both; only what it makes of the posts differs: a value that was secret, or
a number that has nothing to do with it.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from tests.fleet.secure_sum.small_fleet import SmallFleet, centred, interpolated, secret
from veilsum.errors import FleetError
from veilsum.fleet.secure_sum import answer as answers_module
from veilsum.fleet.secure_sum import deal as deals_module
from veilsum.fleet.secure_sum.answer import CheckWords, KeeperAnswer, check_words, word_keys
from veilsum.fleet.secure_sum.close import closes_needed, refundable
from veilsum.fleet.secure_sum.deal import deal, shares
from veilsum.fleet.secure_sum.field import Elements, P, digest, elements, lagrange, product, uniform
from veilsum.fleet.secure_sum.numbers import SumNumbers
from veilsum.fleet.secure_sum.query import Keeper, SumQuery, key_body
from veilsum.fleet.secure_sum.roster import CarriedDeal, SumRoster, deal_hash, propose
from veilsum.fleet.secure_sum.total import total

Pieces = dict[int, Elements]


class KeeperMemory:
    """An honest keeper: one answer a query, whatever it is shown."""

    def __init__(self, fleet: SmallFleet, label: str) -> None:
        self.fleet, self.label = fleet, label
        self.kept: dict[bytes, bytes] = {}

    def shown(self, roster: SumRoster) -> bytes:
        query = self.fleet.query
        if query.digest not in self.kept:
            self.kept[query.digest] = self.fleet.answer(self.label, roster)[0]
        return self.kept[query.digest]


class Forgetful(KeeperMemory):
    """Weakened: answers every roster."""

    def shown(self, roster: SumRoster) -> bytes:
        self.kept = {}
        return super().shown(roster)


class HalfNumbers(SumNumbers):
    """Weakened: 2t = k + c."""

    @property
    def threshold(self) -> int:
        return (self.keepers + self.colluding) // 2


class UnionNumbers(SumNumbers):
    """Weakened: the second half of rule K2 is missing."""

    @property
    def threshold(self) -> int:
        return (self.keepers + self.colluding) // 2 + 1


class ShrinkingNumbers(SumNumbers):
    """Weakened: fewer keepers are thought to have fewer colluders among them."""

    def listed(self, keepers: int, pack: int = 1) -> "ShrinkingNumbers":
        colluding = self.colluding * keepers // self.keepers
        return replace(self, keepers=keepers, pack=pack, colluding=colluding)


# ---- two rosters


def difference(fleet: SmallFleet, kind: type[KeeperMemory], split: tuple[str, ...]) -> int:
    """s0 colludes; keepers of the split see the roster with s2 first, the others that without."""
    whole, less = fleet.roster, fleet.roster_of([s for s in fleet.sites if s != "s2"])
    pieces: dict[bytes, Pieces] = {whole.digest: {}, less.digest: {}}
    for roster in (whole, less):
        pieces[roster.digest][1] = fleet.own_share("s0", [site for site, _ in roster.deals])
    for label in fleet.keepers[1:]:
        keeper = kind(fleet, label)
        for roster in (whole, less) if label in split else (less, whole):
            read = KeeperAnswer.read(fleet.query, keeper.shown(roster))
            assert read is not None
            pieces[read.roster][fleet.query.point[label]] = read.sums
    with_it, without = (
        interpolated(fleet.query, pieces[roster.digest], fleet.numbers.needed)[0]
        for roster in (whole, less)
    )
    return with_it - without


SPLITS = [split for size in range(5) for split in combinations(("s1", "s2", "s3", "s4"), size)]


def test_rosters_that_differ_in_one_site_open_nothing() -> None:
    fleet = SmallFleet(5)
    v = fleet.vectors["s2"][0]
    assert all(difference(fleet, KeeperMemory, split) != v for split in SPLITS)


def test_rosters_that_differ_in_one_site_open_it_if_keepers_answer_twice() -> None:
    fleet = SmallFleet(5)
    assert difference(fleet, Forgetful, ()) == fleet.vectors["s2"][0]


def test_rosters_that_differ_in_one_site_open_it_at_half_the_threshold() -> None:
    fleet = SmallFleet(HalfNumbers(5, 5, 1, 1, 1))
    assert difference(fleet, KeeperMemory, ("s1", "s3")) == fleet.vectors["s2"][0]


@pytest.mark.parametrize("kind", [SumNumbers, UnionNumbers])
def test_disjoint_rosters_and_their_union(kind: type[SumNumbers]) -> None:
    """One answer each to X, Y and X + Y: 6 a_1 + 3 a_2 - 2 a_3 = 4 S(X) + S(Y) if t = 2."""
    fleet = SmallFleet(kind(4, 3, 0, 0, 2))
    x, y = ["s0", "s1"], ["s2", "s3"]
    got = []
    for label, sites in zip(fleet.keepers, (x, y, x + y), strict=True):
        read = KeeperAnswer.read(fleet.query, fleet.answer(label, fleet.roster_of(sites))[0])
        assert read is not None
        got.append(int(read.sums[0]))
    (combination,) = centred([(6 * got[0] + 3 * got[1] - 2 * got[2]) % P])
    opened = combination == 4 * fleet.sum(x)[0] + fleet.sum(y)[0]
    assert opened == (kind is UnionNumbers)


@pytest.mark.parametrize("kind", [SumNumbers, ShrinkingNumbers])
def test_an_asker_lists_the_colluders_and_hardly_anyone_else(kind: type[SumNumbers]) -> None:
    signed = kind(20, 20, 4, 4, 2)
    fleet = SmallFleet(signed.listed(5))
    pieces = {j: fleet.share("s9", f"s{j - 1}")[:-1] for j in (1, 2, 3, 4)}
    opened = interpolated(fleet.query, pieces, fleet.numbers.needed) == fleet.vectors["s9"]
    assert opened == (kind is ShrinkingNumbers)


def test_fewer_shares_than_the_threshold_open_nothing() -> None:
    fleet = SmallFleet(5)
    for points in combinations(range(1, 6), 3):
        pieces = {j: fleet.share("s1", f"s{j - 1}")[:-1] for j in points}
        assert interpolated(fleet.query, pieces, 4) != fleet.vectors["s1"]
    pieces = {j: fleet.share("s1", f"s{j - 1}")[:-1] for j in (1, 2, 4, 5)}
    assert interpolated(fleet.query, pieces, 4) == fleet.vectors["s1"]


# ---- copies


def without_site(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = deals_module.pad
    weak = lambda query, _, *rest: shipped(query, "", *rest)  # noqa: E731
    monkeypatch.setattr(deals_module, "pad", weak)


@pytest.mark.parametrize("weakened", [False, True])
def test_a_copied_deal_is_not_summed_twice(weakened: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if weakened:
        without_site(monkeypatch)
    fleet = SmallFleet(5)
    fleet.deals["s4"] = fleet.deals["s1"]
    found = total(fleet.query, fleet.answers)
    twice = fleet.sum(["s0", "s1", "s2", "s3"])[0] + fleet.vectors["s1"][0]
    assert (found is not None and found.values == (twice,)) == weakened
    assert (found is None) != weakened


def test_a_copied_key_with_rubbish_opens_nothing_as_nobody_complains() -> None:
    """Weakened twin: a keeper that cannot read a post proves it by the Diffie-Hellman secret.

    The shipped keeper reads every valid post, and nothing that it posts holds such a secret.
    """
    fleet = SmallFleet(5)
    copied = fleet.deals["s1"]
    fleet.deals["s4"] = copied[:32] + bytes(len(copied) - 32)
    seen = b"".join([*fleet.answers.values(), *fleet.words.values(), fleet.roster.body])
    pieces = {}
    for keeper in fleet.query.keepers[:4]:
        own = deals_module._private(fleet.secrets[keeper.label])
        complaint = own.exchange(deals_module._public(copied[:32]))
        assert complaint not in seen
        stream = deals_module.pad(fleet.query, "s1", copied[:32], keeper, complaint)
        pads = elements([stream], fleet.query.columns)[0]
        cells = np.frombuffer(copied[32:48] if keeper.label == "s3" else bytes(16), "<u8")
        pieces[fleet.query.point[keeper.label]] = ((pads + cells) % np.uint64(P))[:-1]
    assert interpolated(fleet.query, pieces, 4) == fleet.vectors["s1"]


def moved(key: bytes) -> bytes:
    """Another X25519 key with the same Diffie-Hellman secrets: a point of order 2 is added, u -> 1/u."""
    curve = 2**255 - 19
    return pow(int.from_bytes(key, "little"), -1, curve).to_bytes(32, "little")


@pytest.mark.parametrize("weakened", [False, True])
def test_a_key_moved_by_a_point_of_low_order_has_other_pads(
    weakened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E of a deal, and the key of a keeper that copies one it does not own. Weakened:
    pads of q and site alone, where the difference of two cells is that of two shares."""
    shipped = deals_module.pad
    nobody = Keeper("", bytes(32), bytes(32))
    weak = lambda q, site, *rest: shipped(q, site, b"", nobody, rest[-1])  # noqa: E731
    if weakened:
        monkeypatch.setattr(deals_module, "pad", weak)
    fleet = SmallFleet(5)
    body = fleet.deals["s1"]
    again = moved(body[:32]) + body[32:]
    assert deals_module.valid_deal(fleet.query, "s1", again)
    same = fleet.share("s1", "s2", again).tolist() == fleet.share("s1", "s2").tolist()
    assert same == weakened
    keepers = fleet.query.keepers
    copied = replace(keepers[4], key=moved(keepers[3].key))
    query = replace(fleet.query, keepers=(*keepers[:4], copied))
    body = deal(query, "s1", [77], bytes(32))
    cells = np.frombuffer(body[32:], "<u8").reshape(2, 2)
    pieces = [shares(query, k, fleet.secrets[k], [("s1", body)])[0, :1] for k in fleet.keepers[:4]]
    fifth = product(lagrange((1, 2, 3, 4), (5,)), np.array(pieces, np.uint64))
    apart = (int(cells[1, 0]) - int(cells[0, 0])) % P
    assert (apart == (int(fifth[0, 0]) - int(pieces[3][0])) % P) == weakened


# ---- check words


@pytest.mark.parametrize("weakened", [False, True])
def test_g_stays_out_of_the_answers(weakened: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers with g, and all words, give sum_i r_i v_i: a second combination."""
    if weakened:
        monkeypatch.setattr(answers_module, "summed", lambda mine: mine)
    fleet = SmallFleet(5)
    pieces: Pieces = {}
    for label, (body, words) in fleet.answered.items():
        sums = np.frombuffer(body[32:-8], "<u8")
        value = (sum(words.words) - int(sums[-1])) % P
        pieces[fleet.query.point[label]] = np.array([value], np.uint64)
    challenges = [int(uniform(1, b"challenge", name)[0]) for _, name in fleet.roster.deals]
    second = sum(r * fleet.vectors[s][0] for r, s in zip(challenges, fleet.sites, strict=True))
    found = interpolated(fleet.query, pieces, fleet.numbers.needed)
    assert (found == centred([second % P])) == weakened


@pytest.mark.parametrize("weakened", [False, True])
def test_g_hides_the_values_in_the_words(weakened: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All words of one deal give w(0) = g(0) + r v. Weakened: g(0) = 0."""
    if weakened:
        zeros = lambda length, *_: np.zeros(length, np.uint64)  # noqa: E731
        monkeypatch.setattr("veilsum.fleet.secure_sum.deal.uniform", zeros)
    fleet = SmallFleet(5)
    r = int(uniform(1, b"challenge", fleet.roster.deals[1][1])[0])
    pieces = {
        fleet.query.point[label]: np.array([words.words[1]], np.uint64)
        for label, (_, words) in fleet.answered.items()
    }
    found = interpolated(fleet.query, pieces, fleet.numbers.needed)
    assert (found == centred([r * fleet.vectors["s1"][0] % P])) == weakened


def opened_by_two_words(
    fleet: SmallFleet, first: Callable[[str], tuple[bytes, Any]], second: Callable[[str], Any]
) -> int:
    """w - w' = (r - r') f(j) for two words of one deal of one coordinate."""
    pieces, challenges = {}, [0, 0]
    for label in fleet.keepers[: fleet.numbers.needed]:
        words = []
        for i, ask in enumerate((first, second)):
            name, word = ask(label)
            challenges[i] = int(uniform(1, b"challenge", name)[0])
            words.append(int(word))
        value = (words[0] - words[1]) % P
        pieces[fleet.query.point[label]] = np.array([value], np.uint64)
    scaled = interpolated(fleet.query, pieces, fleet.numbers.needed)[0]
    apart = (challenges[0] - challenges[1]) % P
    return centred([scaled * pow(apart, -1, P) % P])[0] if apart else 0


def word_of(fleet: SmallFleet, label: str, name: bytes, body: bytes, kept: dict[Any, int]) -> int:
    roster = SumRoster(fleet.query, (("s1", name),))
    chosen = [("s1", body)]
    mine = shares(fleet.query, label, fleet.secrets[label], chosen)
    (word,) = check_words(fleet.query, roster, chosen, mine, kept).tolist()
    kept[word_keys(fleet.query, chosen)[0]] = word
    return int(word)


@pytest.mark.parametrize("weakened", [False, True])
def test_a_flipped_bit_gets_no_second_word(weakened: bool) -> None:
    """The bit is in the cell of s4: the others read the same shares under another hash."""
    fleet = SmallFleet(5)
    body = fleet.deals["s1"]
    flipped = body[:-16] + bytes([body[-16] ^ 1]) + body[-15:]
    kept: dict[str, dict[Any, int]] = {label: {} for label in fleet.keepers}

    def ask(label: str, shown: bytes) -> tuple[bytes, int]:
        name = fleet.name_of("s1", shown)
        return name, word_of(fleet, label, name, shown, {} if weakened else kept[label])

    found = opened_by_two_words(fleet, lambda k: ask(k, body), lambda k: ask(k, flipped))
    assert (found == fleet.vectors["s1"][0]) == weakened


@pytest.mark.parametrize("weakened", [False, True])
def test_a_second_header_is_no_second_challenge(weakened: bool) -> None:
    """One body under two headers; the weakened hash covers the header, as the hash of a post does."""
    fleet = SmallFleet(5)
    body = fleet.deals["s1"]

    def ask(label: str, header: bytes) -> tuple[bytes, int]:
        name = fleet.name_of("s1", body)
        if weakened:
            name = digest(b"deal", fleet.query.digest, b"s1", body, header)
        return name, word_of(fleet, label, name, body, {})

    found = opened_by_two_words(fleet, lambda k: ask(k, b"one"), lambda k: ask(k, b"two"))
    assert (found == fleet.vectors["s1"][0]) == weakened


# ---- replay


class BoardlessQuery(SumQuery):
    """Weakened: q leaves out the authority and the membership."""

    @cached_property
    def digest(self) -> bytes:
        return digest(b"query", self.name.encode(), self.terms)


CHANGES: list[dict[str, Any]] = [
    {"fleet": secret("another authority")},
    {"membership": secret("another membership")},
    {"epoch": 2},
    {"proposer": secret("site", "s1")},
    {"deadline": 1},
    {"bound": 1 << 40},
    {"sites": tuple((f"s{i}", secret("site", f"s{(i + 1) % 5}")) for i in range(5))},
]


@pytest.mark.parametrize("changed", CHANGES, ids=lambda changed: next(iter(changed)))
@pytest.mark.parametrize("kind", [SumQuery, BoardlessQuery])
def test_a_deal_opens_for_the_query_that_it_was_made_for_alone(
    kind: type[SumQuery], changed: dict[str, Any]
) -> None:
    fleet = SmallFleet(5)
    fields = {name: getattr(fleet.query, name) for name in fleet.query.__dataclass_fields__}
    here, there = kind(**fields), kind(**{**fields, **changed})
    body = deal(here, "s1", [77], bytes(32))
    pieces: Pieces = {}
    for keeper in fleet.keepers[:4]:
        read = shares(there, keeper, fleet.secrets[keeper], [("s1", body)])
        pieces[there.point[keeper]] = read[0, :-1]
    assert (interpolated(there, pieces, 4) == [77]) == (kind is BoardlessQuery)


def test_a_key_signed_for_another_query_is_refused() -> None:
    fleet = SmallFleet(5)
    keys = {
        keeper.label: (keeper.post, key_body("q", keeper.key)) for keeper in fleet.query.keepers
    }
    fleet.query.check_keys(keys)
    post, _ = keys["s3"]
    other = replace(fleet.query.keepers[3], key=fleet.query.keepers[2].key)
    for wrong in (
        {**keys, "s3": (post, key_body("another query", fleet.keys["s3"]))},
        {**keys, "s3": (post, key_body("q", other.key))},
        {**keys, "s3": (secret("another post"), keys["s3"][1])},
    ):
        with pytest.raises(FleetError, match="'s3' is not one that it signed for this query"):
            fleet.query.check_keys(wrong)
    del keys["s3"]
    with pytest.raises(FleetError):
        fleet.query.check_keys(keys)


def test_numbers_epoch_and_keepers_are_those_that_the_authority_signed() -> None:
    fleet = SmallFleet(5)
    query, signed = fleet.query, fleet.numbers
    allowed = frozenset(fleet.keepers)
    query.check_signed(signed, query.membership, 1, allowed)
    with pytest.raises(FleetError, match="newest one here is 2"):
        query.check_signed(signed, secret("next"), 2, allowed)
    with pytest.raises(FleetError, match="newest one here is 1"):
        query.check_signed(signed, secret("another of this number"), 1, allowed)
    with pytest.raises(FleetError, match="no keeper"):
        query.check_signed(signed, query.membership, 1, allowed - {"s3"})
    for change in ({"colluding": 2, "corrupt": 2}, {"corrupt": 2}, {"absent": 0}, {"wrong": 1}):
        with pytest.raises(FleetError, match="other numbers"):
            query.check_signed(replace(signed, **change), query.membership, 1, allowed)


def test_answers_to_another_query_are_of_no_roster_of_this_one() -> None:
    one, other = SmallFleet(5), SmallFleet(5, name="other")
    found = total(one.query, other.answers)
    assert found is not None
    assert found.roster == other.roster.digest != one.roster.digest


# ---- rosters


def test_bad_rosters_are_refused_with_the_reason() -> None:
    fleet = SmallFleet(5)
    query, named = fleet.query, fleet.roster.deals
    elsewhere = SmallFleet(5, name="other")
    invalid = SumRoster(query, (*named[:4], ("s4", deal_hash(query, "s4", b"rubbish"))))
    fleet_deals = [*fleet.deals.items(), ("s4", b"rubbish")]
    for roster, why in (
        (SumRoster(query, named[:3]), "3 of 5 sites; at least 4"),
        (SumRoster(query, (*named[:4], ("s4", bytes(32)))), "'s4' that is not here"),
        (SumRoster(query, (*named[:4], ("s4", named[3][1]))), "'s4' that is not here"),
        (invalid, "'s4' that is not valid"),
        (elsewhere.roster, "another query"),
    ):
        with pytest.raises(FleetError, match=why):
            answers_module.answer(query, "s1", fleet.secrets["s1"], roster, fleet_deals)
    for deals in (named[::-1], (named[0], named[0]), (*named, ("s9", bytes(32)))):
        with pytest.raises(FleetError, match="each once, in order"):
            SumRoster(query, deals)
    with pytest.raises(FleetError, match="32 bytes"):
        SumRoster(query, (("s0", b""),))


def test_a_roster_names_one_of_two_deals_and_can_carry_it() -> None:
    fleet = SmallFleet(5)
    first, second = fleet.deals["s3"], deal(fleet.query, "s3", [99], bytes(32))
    everything = [*fleet.deals.items(), ("s3", second)]
    roster = propose(fleet.query, everything, [CarriedDeal("s3", b"signed header", second)])
    assert dict(roster.deals)["s3"] == min(fleet.name_of("s3", first), fleet.name_of("s3", second))
    named = second if dict(roster.deals)["s3"] == fleet.name_of("s3", second) else first
    lacking = [(s, b) for s, b in everything if b != named]
    with pytest.raises(FleetError, match="'s3' that is not here"):
        answers_module.answer(fleet.query, "s1", fleet.secrets["s1"], roster, lacking)
    answers = {
        label: answers_module.answer(fleet.query, label, own, roster, everything)[0]
        for label, own in fleet.secrets.items()
    }
    found = total(fleet.query, answers)
    fleet.vectors["s3"] = [99] if named == second else fleet.vectors["s3"]
    assert found is not None
    assert found.values == fleet.sum()


# ---- liars


def spoilt(body: bytes, by: int = 1, at: int = 32) -> bytes:
    value = (int.from_bytes(body[at : at + 8], "little") + by) % P
    return body[:at] + value.to_bytes(8, "little") + body[at + 8 :]


@pytest.mark.parametrize(("n", "length"), [(20, 1), (20, 7), (50, 1)])
def test_liars_are_corrected_up_to_the_bound_and_named_at_odds(n: int, length: int) -> None:
    fleet = SmallFleet(n, length)
    bound = (n - fleet.numbers.needed) // 2
    for count in range(bound + 3):
        liars = tuple(sorted(fleet.keepers, key=lambda k: secret(k, count))[:count])
        shown = dict(fleet.answers)
        for i, label in enumerate(liars):
            shown[label] = spoilt(shown[label], i + 1, 32 + 8 * (i % (fleet.query.columns - 1)))
        found = total(fleet.query, shown)
        if count > bound:
            assert found is None
        else:
            assert found is not None
            assert found.values == fleet.sum()
            assert set(found.at_odds) == set(liars)
            assert found.words_at_odds == ()


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_store_that_shows_few_answers_can_forge_only_if_none_may_be_wrong(wrong: int) -> None:
    """One liar of twenty, a store that shows what suits it. Weakened twin: e = 0."""
    fleet = SmallFleet(SumNumbers(20, 20, 4, 4, 2, wrong))
    lying = {**fleet.answers, "s3": spoilt(fleet.answers["s3"], 12345)}
    forged = False
    for count in range(1, 21):
        for start in range(20):
            chosen = {fleet.keepers[(3 + start * i) % 20] for i in range(count)}
            try:
                found = total(fleet.query, {label: lying[label] for label in chosen})
            except FleetError:
                forged = True
                continue
            forged |= found is not None and found.values != fleet.sum()
    assert forged == (wrong == 0)


def test_all_coordinates_are_verified_when_a_mix_was_tried_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A liar who hides from the first mix is found by the next; from all mixes, no sum is shown."""
    fleet = SmallFleet(20, 7)
    lying = {**fleet.answers, "s3": spoilt(fleet.answers["s3"], 5, 40)}

    def blind(until: int) -> Callable[..., Elements]:
        def mix(length: int, kind: bytes, trial: bytes, *rest: bytes) -> Elements:
            out = uniform(length, kind, trial, *rest).copy()
            out[1] = 0 if trial[0] < until else out[1]
            return out

        return mix

    monkeypatch.setattr("veilsum.fleet.secure_sum.total.uniform", blind(1))
    found = total(fleet.query, lying)
    assert found is not None
    assert (found.values, found.at_odds) == (fleet.sum(), ("s3",))
    monkeypatch.setattr("veilsum.fleet.secure_sum.total.uniform", blind(9))
    assert total(fleet.query, {**lying, "s0": lying["s1"]}) is None


# ---- seeds, crashes, restored ledgers


@pytest.mark.parametrize("weakened", [False, True])
def test_a_repeated_seed_repeats_no_pad(weakened: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cloned machines deal different vectors from one seed: equal pads would give v' - v."""
    if weakened:
        forgetting = lambda query, *rest: digest(b"seed", query.digest, rest[-1])  # noqa: E731
        monkeypatch.setattr(deals_module, "hedge", forgetting)
    query = SmallFleet(5).query
    one, two = (deal(query, "s1", [value], bytes(32)) for value in (1000, 1234))
    cells = [int(np.frombuffer(body[32:40], "<u8")[0]) for body in (one, two)]
    weight = int(query.spread[0, 0])
    guess = (cells[1] - cells[0]) * pow(weight, -1, P) % P
    assert (guess == 234) == weakened
    assert (one[:32] == two[:32]) == weakened


def test_closes_that_allow_a_refund_leave_too_few_shares() -> None:
    """c of those who closed lie. With one close less, t shares can still come together."""
    for n in (3, 5, 20, 50):
        fleet = SmallFleet(n)
        k, c, t = n, fleet.numbers.colluding, fleet.numbers.threshold
        needed = closes_needed(fleet.query)
        assert k - (needed - c) == t - 1
        if needed <= k:
            assert refundable(fleet.query, fleet.keepers[:needed])
        assert not refundable(fleet.query, fleet.keepers[: needed - 1])
        strangers = [f"x{i}" for i in range(n)]
        doubled = fleet.keepers[: needed - 1]
        assert not refundable(fleet.query, [*doubled, *doubled, *strangers])


def test_a_word_of_a_deal_shown_late_is_that_of_the_first() -> None:
    fleet = SmallFleet(5)
    kept: dict[Any, int] = {}
    first = word_of(fleet, "s1", fleet.name_of("s1", fleet.deals["s1"]), fleet.deals["s1"], kept)
    body = fleet.deals["s1"][:32] + fleet.deals["s2"][32:]
    again = answers_module.answer(
        fleet.query,
        "s1",
        fleet.secrets["s1"],
        propose(
            fleet.query, [*((s, b) for s, b in fleet.deals.items() if s != "s1"), ("s1", body)]
        ),
        [("s1", body), *fleet.deals.items()],
        kept,
    )[1]
    assert again.words[1] == first
    assert isinstance(again, CheckWords)
