"""Guarantees that are asked for more: messages, windows, streams, everyone; and strictness."""

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import veilsum as vs
from veilsum import algorithms, families, networks
from veilsum.errors import PrivacyError, PrivacyWarning
from veilsum.families import Custom, Normal, Support
from veilsum.privacy import (
    Batches,
    Guarantee,
    NetworkDP,
    NoPrivacy,
    PrivacyRequest,
    SignalDP,
    Status,
    guarantee_of,
)
from veilsum.privacy.requests import Protects

DAILY = guarantee_of(SignalDP(1.0, radius=0.5), algorithms.Learn())
HIDDEN = guarantee_of(NetworkDP(0.1), algorithms.LearnNetwork())
PUBLISHED = guarantee_of(
    SignalDP(1.0, delta=0.01, sensitivity="smooth-as-published"), algorithms.Learn()
)
MIXING = networks.metropolis(networks.load("florentine-families"))


def test_a_window_and_a_stream_cost_their_readings() -> None:
    assert DAILY.for_window(7).epsilon == 7
    assert DAILY.for_stream(365).epsilon == 365
    assert DAILY.for_window(7).unit.readings == 7
    assert "any 7 consecutive readings" in str(DAILY.for_window(7))
    assert "a whole stream of 365" in str(DAILY.for_stream(365))


def test_tight_composition_is_reported_when_it_is_smaller() -> None:
    tight = HIDDEN.for_messages(100, delta=1e-6)
    assert tight.epsilon == pytest.approx(4.6927, abs=1e-3)
    assert (tight.delta, tight.adversary.messages) == (1e-6, 100)
    assert "tight" in tight.reason
    assert HIDDEN.for_messages(2, delta=1e-6).epsilon <= 0.2


def test_noise_that_enters_once_protects_all_messages_alike() -> None:
    assert DAILY.for_messages(1000).epsilon == DAILY.epsilon
    assert HIDDEN.for_messages(1000).epsilon == pytest.approx(100)


def test_deltas_compose_too() -> None:
    assert PUBLISHED.for_stream(5).delta == pytest.approx(0.05)
    assert PUBLISHED.for_stream(5).status is Status.REFUTED


def test_against_everyone_only_the_signals_can_be_guaranteed() -> None:
    alone = HIDDEN.against_everyone()
    assert not alone.unit.neighbours
    assert (alone.epsilon, alone.status) == (0.1, Status.PROVED)
    average = guarantee_of(NetworkDP(1.0), algorithms.Average())
    assert average.status is Status.REFUTED
    assert average.against_everyone().status is Status.PROVED
    assert DAILY.against_everyone() == DAILY
    published = guarantee_of(
        NetworkDP(1.0, 0.01, sensitivity="smooth-as-published"), algorithms.Average()
    )
    assert published.against_everyone().status is Status.REFUTED


def test_asking_twice_never_lowers_the_cost() -> None:
    """Ten readings that move cost ten times, whoever looks and in whatever order one asks."""
    wide = HIDDEN.for_stream(10)
    assert wide.for_messages(1).epsilon == pytest.approx(1.0)
    assert wide.for_messages(20).epsilon == pytest.approx(2.0)
    assert HIDDEN.for_messages(20).for_stream(10).epsilon == pytest.approx(2.0)
    assert wide.against_everyone().epsilon == pytest.approx(1.0)
    assert wide.against_everyone().unit.readings == 10
    assert DAILY.for_stream(10).for_messages(1).epsilon == 10


def test_a_delta_of_one_guarantees_nothing() -> None:
    assert PUBLISHED.for_stream(365).status is Status.NONE


def test_an_infinite_radius_survives_json() -> None:
    made = guarantee_of(SignalDP(1.0, radius=math.inf), algorithms.Average())
    text = json.dumps(made.to_dict(), allow_nan=False)
    assert Guarantee.from_dict(json.loads(text)) == made
    assert json.dumps(guarantee_of(NoPrivacy(), algorithms.Average()).to_dict(), allow_nan=False)


def test_a_family_from_elsewhere_is_its_authors_word() -> None:
    class Steep(Normal):
        def _xi(self, s: Any) -> Any:
            return 1000 * s

    made = guarantee_of(SignalDP(1.0, radius=1.0), algorithms.Average(), family=Steep(sigma=1.0))
    assert made.status is Status.CLAIMED
    assert (
        guarantee_of(SignalDP(1.0, radius=1.0), algorithms.Average(), family=Normal(1.0)).status
        is Status.PROVED
    )
    vouched = Custom(np.sin, Support(), 1.0)
    assert (
        guarantee_of(SignalDP(1.0, radius=1.0), algorithms.Average(), family=vouched).status
        is Status.CLAIMED
    )


def test_a_shared_budget_lasts_for_the_stream() -> None:
    shared = guarantee_of(SignalDP(1.0), algorithms.FirstOrderOnline(), rounds=50)
    assert shared.for_stream(50).epsilon == pytest.approx(1.0)


def test_there_is_no_stream_offline() -> None:
    offline = guarantee_of(SignalDP(1.0), algorithms.Average())
    with pytest.raises(PrivacyError, match="there is no stream"):
        offline.for_stream(3)
    with pytest.raises(PrivacyError, match="whole number of at least 1"):
        DAILY.for_window(0)


@pytest.mark.parametrize("made", [DAILY, HIDDEN, PUBLISHED, HIDDEN.for_messages(9)])
def test_a_guarantee_survives_json(made: Any) -> None:
    again = Guarantee.from_dict(json.loads(json.dumps(made.to_dict())))
    assert again == made
    assert str(again) == str(made)


def test_nothing_wanted_is_nothing_guaranteed() -> None:
    none = guarantee_of(NoPrivacy(), algorithms.Average())
    assert none.epsilon == math.inf
    assert none.for_messages(5).status is Status.NONE


@pytest.mark.parametrize(
    ("privacy", "algorithm", "erratum"),
    [
        (NetworkDP(1.0, radius=1.0), "average", "erratum 5"),
        (SignalDP(1.0, radius=1.0), "first-order", "erratum 9"),
        (NetworkDP(1.0, radius=1.0), "jacobi", "No privacy"),
    ],
)
def test_what_is_not_proved_warns_and_is_refused_when_strict(
    privacy: Any, algorithm: Any, erratum: Any
) -> None:
    setting = ({"mu": 0.0}, MIXING, Normal(sigma=1.0), privacy, algorithm, 3)
    with pytest.warns(PrivacyWarning, match=erratum):
        vs.sweep(*setting)
    with pytest.raises(PrivacyError, match="strict mode"):
        vs.sweep(*setting, strict=True)
    with pytest.raises(PrivacyError, match="strict mode"):
        vs.estimate(np.zeros(15), *setting[1:], strict=True)


def test_what_is_proved_or_not_asked_for_is_silent() -> None:
    for privacy in (SignalDP(1.0), NoPrivacy()):
        assert vs.sweep(
            {"mu": 0.0}, MIXING, Normal(sigma=1.0), privacy, rounds=3, strict=True
        ).result


def test_a_transcript_tells_no_more_of_a_signal_than_everything_does() -> None:
    """It was said to be "all messages over 1 rounds", whatever the run."""
    assert DAILY.for_messages(3).for_transcript() == DAILY
    assert "all messages of all agents" in str(DAILY.for_stream(7).for_transcript())
    assert DAILY.for_stream(7).for_transcript().epsilon == 7


class SilentRequest(PrivacyRequest):
    """A request that asks for nothing and is not `NoPrivacy`."""

    @property
    def adds_noise(self) -> bool:
        """No."""
        return False


def test_a_request_without_noise_guarantees_nothing() -> None:
    """Noise and guarantee ask the same question: what adds no noise is never proved."""
    silent = SilentRequest(1.0)
    assert guarantee_of(silent, algorithms.Average()).status is Status.NONE
    ring, family = networks.metropolis("ring:9"), families.Bernoulli()
    with pytest.raises(PrivacyError, match="SignalDP"):
        vs.estimate(np.ones(9), ring, family, silent, rounds=2, rng=1, strict=True)


def test_the_base_of_requests_cannot_be_instantiated() -> None:
    """It says nothing of what is protected."""
    with pytest.raises(TypeError, match="abstract"):
        PrivacyRequest(1.0)  # type: ignore[abstract]


def test_neighbours_are_guaranteed_where_the_noise_covers_them() -> None:
    """A subclass of Network DP that hides signals only is stated as such."""

    class SignalsOnly(NetworkDP):
        protects = Protects.SIGNAL

    assert not guarantee_of(SignalsOnly(1.0), algorithms.LearnNetwork()).unit.neighbours


def test_a_custom_algorithm_is_asked_again_every_time() -> None:
    """Its coefficients may follow from what no cache can know, such as a global of a notebook."""
    noise = [1.0]

    @dataclass(frozen=True)
    class Mine(algorithms.Algorithm):
        name = "mine"
        start = algorithms.Coefficients()
        online = True

        def coefficients(self, t: int) -> algorithms.Coefficients:
            return algorithms.Coefficients(mixing=1 - 1 / t, innovation=1 / t, noise=noise[0] / t)

    for batches in (None, Batches(2.0)):
        noise[0] = 1.0
        request = SignalDP(1.0, radius=1.0, batches=batches)
        assert guarantee_of(request, Mine(), 20).status is Status.PROVED
        noise[0] = 0.0
        assert guarantee_of(request, Mine(), 20).status is Status.NONE
