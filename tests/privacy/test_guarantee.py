"""Every run comes with a promise whose standing is right."""

import json

import pytest

from murmura import laws
from murmura.laws.table import table
from murmura.privacy import NetworkDP, NoPrivacy, SignalDP, promise

PRINTED = {"epsilon": 1.0, "delta": 0.01, "sensitivity": "smooth-printed"}
CHEBYSHEV = laws.Chebyshev(lambda_2=0.5, lambda_n=0.0)


@pytest.mark.parametrize(
    ("want", "law", "status", "words"),
    [
        (SignalDP(1.0), laws.Average(), "proved", "noised once"),
        (SignalDP(1.0), laws.Jacobi(), "proved", "noised once"),
        (SignalDP(1.0), laws.Learn(), "proved", "any one reading of a stream"),
        (SignalDP(1.0), laws.PushSum(), "proved", "all messages of all agents"),
        (NetworkDP(1.0), laws.LearnNetwork(), "proved", "the next message"),
        (NetworkDP(1.0), laws.Average(), "refuted", "erratum 5"),
        (NetworkDP(1.0), CHEBYSHEV, "none", "signal protection"),
        (SignalDP(**PRINTED), laws.Learn(), "refuted", "erratum 2"),
        (NetworkDP(**PRINTED), laws.LearnNetwork(), "refuted", "erratum 2"),
        (SignalDP(1.0), laws.FirstOrder(), "none", "without noise in round 0"),
        (NetworkDP(1.0), laws.FirstOrderEdges(), "none", "without noise in round 0"),
        (SignalDP(1.0), laws.FirstOrderOnline(), "proved", "its share of epsilon = 1"),
        (NetworkDP(1.0), laws.NaiveNetwork(), "proved", "together at most epsilon = 100"),
        (NoPrivacy(), laws.Average(), "none", "no noise is added"),
    ],
)
def test_standing(want, law, status, words):
    found = promise(want, law)
    assert found.status == status
    assert words in str(found)
    assert json.loads(json.dumps(found.to_dict()))["status"] == status


class Bare(laws.Learn):
    """A twin that forgets the noise in round 5."""

    def coefficients(self, t):
        now = super().coefficients(t)
        return now._replace(noise=0.0) if t == 5 else now


class Twice(laws.Average):
    """A twin that uses the signal again in round 3, with noise but without sharing the budget."""

    def coefficients(self, t):
        return (
            laws.Coefficients(mix=0.5, learn=0.5, noise=0.5) if t == 3 else super().coefficients(t)
        )


def test_a_weakened_law_of_ones_own_is_promised_nothing():
    assert promise(SignalDP(1.0), Bare(), rounds=4).status == "proved"
    assert "without noise in round 5" in promise(SignalDP(1.0), Bare(), rounds=5).reason
    assert promise(SignalDP(1.0), Bare(), rounds=5).status == "none"
    assert promise(SignalDP(1.0), Twice()).status == "none"
    assert "do not share the budget" in promise(SignalDP(1.0), Twice()).reason


class Early(laws.Learn):
    """A twin that uses the first reading at the start as well."""

    start = laws.Coefficients(learn=1.0, noise=1.0)


class Mirrored(laws.Average):
    """A law that releases the statistic with its sign turned."""

    start = laws.Coefficients(learn=-2.0, noise=1.0)


class Modest(laws.Learn):
    """A twin that says its releases move half as far as they do."""

    def sensitivities(self, t):
        return laws.Sensitivities(0.5, super().sensitivities(t).network)


def test_signs_and_understatements_do_not_weaken_the_noise():
    turned = laws.Law.sensitivities(Mirrored(), 0)
    assert turned == (2.0, 0.0)
    assert promise(SignalDP(1.0), Mirrored()).status == "none"  # Average says 1, it moves by 2
    assert promise(SignalDP(1.0), Modest()).status == "none"
    assert "understates" in promise(SignalDP(1.0), Modest()).reason


class Shared(laws.Average):
    """A law that shares its budget over the start and every round."""

    splits_budget = True

    def coefficients(self, t):  # noqa: ARG002 - the same in every round
        return laws.Coefficients(mix=0.5, learn=0.5, noise=0.5)


def test_readings_and_shares_are_counted():
    assert promise(SignalDP(1.0), Early()).status == "none"
    assert table(Shared(), 4).releases == 5
    assert table(laws.FirstOrder(), 4).releases == 4
    assert promise(NetworkDP(1.0), laws.PushSumLearn()).status == "none"
    assert promise(SignalDP(1.0), laws.PushSumLearn()).status == "proved"


def test_a_promise_names_its_unit_and_its_adversary():
    text = str(promise(SignalDP(1.0, radius=0.5), laws.Average()))
    assert "moves by at most 0.5 in its own units" in text
    assert "against whoever sees all messages of all agents" in text
    assert "privacy with epsilon = 1 for an agent's signal" in text
    refuted = str(promise(SignalDP(**PRINTED), laws.Average()))
    assert "epsilon = 1 and delta = 0.01 for" in refuted
    assert refuted.startswith("Refuted: ")
