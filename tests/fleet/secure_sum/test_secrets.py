"""Nothing that is posted, kept, shown or raised holds a value, a noise share, a seed, a pad or a key."""

import json

import numpy as np
import pytest

from tests.fleet.secure_sum.small_fleet import SmallFleet
from veilsum.errors import FleetError
from veilsum.fleet.secure_sum import deal as deals_module
from veilsum.fleet.secure_sum.answer import KeeperAnswer
from veilsum.fleet.secure_sum.blame import blame
from veilsum.fleet.secure_sum.deal import deal
from veilsum.fleet.secure_sum.field import P
from veilsum.fleet.secure_sum.roster import SumRoster
from veilsum.fleet.secure_sum.total import total


def needles(fleet: SmallFleet) -> list[bytes]:
    """Values, seeds, keys, Diffie-Hellman secrets, pads and shares, in the forms in which they could leak."""
    out = [fleet.seed(site) for site in fleet.sites] + list(fleet.secrets.values())
    for site, values in fleet.vectors.items():
        for value in values:
            out += [(value % P).to_bytes(8, order) for order in ("little", "big")]
            out += [str(value).encode(), str(value % P).encode()]
        body = fleet.deals[site]
        own = np.array([v % P for v in values], np.uint64)
        out.append(deals_module.hedge(fleet.query, site, own, fleet.seed(site)))
        for keeper in fleet.query.keepers:
            key = deals_module._private(fleet.secrets[keeper.label])
            shared = key.exchange(deals_module._public(body[:32]))
            pads = deals_module.pad(fleet.query, site, body[:32], keeper, shared)
            out += [shared, *(pads[i : i + 8] for i in range(0, 8 * fleet.query.columns, 8))]
            out += [fleet.share(site, keeper.label)[i : i + 1].tobytes() for i in range(2)]
    return out


def test_nothing_secret_is_in_any_bytes_or_texts() -> None:
    fleet = SmallFleet(5, 2)
    fleet.vectors = {
        site: [123_456_789_012 + 17 * i, -(987_654_321_098 + 19 * i)]
        for i, site in enumerate(fleet.sites)
    }
    query = fleet.query
    found = total(query, fleet.answers)
    accused = blame(query, fleet.roster, fleet.answers, fleet.words)
    read = [KeeperAnswer.read(query, body) for body in fleet.answers.values()]
    shown = [query.body, fleet.roster.body, *fleet.deals.values()]
    shown += [*fleet.answers.values(), *fleet.words.values()]
    objects = [query, fleet.roster, found, accused, *read, *fleet.answered.values(), query.numbers]
    shown += [repr(thing).encode() for thing in objects] + [
        str(thing).encode() for thing in objects
    ]
    everything = b"\n".join(shown)
    assert not [needle for needle in needles(fleet) if needle in everything]
    assert fleet.deals["s1"][32:40] in everything  # the search finds what is there
    assert json.dumps(found.values if found else ()).encode()[1:-1].split(b",")[0] in everything


def test_errors_say_nothing_of_the_vector() -> None:
    fleet = SmallFleet(5, 2)
    absurd = 1 << 59
    texts = []
    for vector, seed in (([absurd], bytes(32)), ([absurd, absurd, 3], bytes(32)), ([1, 2], b"abc")):
        with pytest.raises(FleetError) as raised:
            deal(fleet.query, "s1", vector, seed)
        texts.append(str(raised.value))
    fleet.vectors["s1"] = [absurd, 5]
    with pytest.raises(FleetError) as raised:
        total(fleet.query, fleet.answers)
    texts.append(str(raised.value))
    lacking = [(site, body) for site, body in fleet.deals.items() if site != "s1"]
    with pytest.raises(FleetError) as raised:
        deals_module_answer(fleet, lacking)
    texts.append(str(raised.value))
    for text in texts:
        assert str(absurd)[:5] not in text
        assert "abc" not in text
        assert fleet.deals["s1"].hex()[:8] not in text


def deals_module_answer(fleet: SmallFleet, held: list[tuple[str, bytes]]) -> None:
    from veilsum.fleet.secure_sum.answer import answer

    roster = SumRoster.read(fleet.query, fleet.roster.body)
    answer(fleet.query, "s1", fleet.secrets["s1"], roster, held)
