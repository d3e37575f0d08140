"""Promises that are asked for more: messages, windows, streams, everyone; and strictness."""

import json
import math

import numpy as np
import pytest

import murmura as mm
from murmura import laws, network
from murmura.errors import PrivacyError, PrivacyWarning
from murmura.families import Custom, Normal, Support
from murmura.privacy import Guarantee, NetworkDP, NoPrivacy, SignalDP, Status, promise

DAILY = promise(SignalDP(1.0, radius=0.5), laws.Learn())
HIDDEN = promise(NetworkDP(0.1), laws.LearnNetwork())
PRINTED = promise(SignalDP(1.0, delta=0.01, sensitivity="smooth-printed"), laws.Learn())
MIXING = network.metropolis(network.load("florentine-families"))


def test_a_window_and_a_stream_cost_their_readings():
    assert DAILY.for_window(7).epsilon == 7
    assert DAILY.for_stream(365).epsilon == 365
    assert DAILY.for_window(7).unit.readings == 7
    assert "any 7 consecutive readings" in str(DAILY.for_window(7))
    assert "a whole stream of 365" in str(DAILY.for_stream(365))


def test_tight_composition_is_reported_when_it_is_smaller():
    tight = HIDDEN.for_messages(100, delta=1e-6)
    assert tight.epsilon == pytest.approx(4.6927, abs=1e-3)
    assert (tight.delta, tight.adversary.messages) == (1e-6, 100)
    assert "tight" in tight.reason
    assert HIDDEN.for_messages(2, delta=1e-6).epsilon <= 0.2


def test_noise_that_enters_once_protects_all_messages_alike():
    assert DAILY.for_messages(1000).epsilon == DAILY.epsilon
    assert HIDDEN.for_messages(1000).epsilon == pytest.approx(100)


def test_deltas_compose_too():
    assert PRINTED.for_stream(5).delta == pytest.approx(0.05)
    assert PRINTED.for_stream(5).status is Status.REFUTED


def test_against_everyone_only_the_signals_can_be_promised():
    alone = HIDDEN.against_everyone()
    assert not alone.unit.neighbours
    assert (alone.epsilon, alone.status) == (0.1, Status.PROVED)
    average = promise(NetworkDP(1.0), laws.Average())
    assert average.status is Status.REFUTED
    assert average.against_everyone().status is Status.PROVED
    assert DAILY.against_everyone() == DAILY
    printed = promise(NetworkDP(1.0, 0.01, sensitivity="smooth-printed"), laws.Average())
    assert printed.against_everyone().status is Status.REFUTED


def test_asking_twice_never_lowers_the_price():
    """Ten readings that move cost ten times, whoever looks and in whatever order one asks."""
    wide = HIDDEN.for_stream(10)
    assert wide.for_messages(1).epsilon == pytest.approx(1.0)
    assert wide.for_messages(20).epsilon == pytest.approx(2.0)
    assert HIDDEN.for_messages(20).for_stream(10).epsilon == pytest.approx(2.0)
    assert wide.against_everyone().epsilon == pytest.approx(1.0)
    assert wide.against_everyone().unit.readings == 10
    assert DAILY.for_stream(10).for_messages(1).epsilon == 10


def test_a_delta_of_one_promises_nothing():
    assert PRINTED.for_stream(365).status is Status.NONE


def test_an_infinite_radius_survives_json():
    made = promise(SignalDP(1.0, radius=math.inf), laws.Average())
    text = json.dumps(made.to_dict(), allow_nan=False)
    assert Guarantee.from_dict(json.loads(text)) == made
    assert json.dumps(promise(NoPrivacy(), laws.Average()).to_dict(), allow_nan=False)


def test_a_family_from_elsewhere_is_its_authors_word():
    class Steep(Normal):
        def _xi(self, s):
            return 1000 * s

    made = promise(SignalDP(1.0), laws.Average(), family=Steep(sigma=1.0))
    assert made.status is Status.CLAIMED
    assert promise(SignalDP(1.0), laws.Average(), family=Normal(1.0)).status is Status.PROVED
    vouched = Custom(np.sin, Support(), 1.0)
    assert promise(SignalDP(1.0), laws.Average(), family=vouched).status is Status.CLAIMED


def test_a_shared_budget_lasts_for_the_stream():
    shared = promise(SignalDP(1.0), laws.FirstOrderOnline(), rounds=50)
    assert shared.for_stream(50).epsilon == pytest.approx(1.0)


def test_there_is_no_stream_offline():
    offline = promise(SignalDP(1.0), laws.Average())
    with pytest.raises(PrivacyError, match="there is no stream"):
        offline.for_stream(3)
    with pytest.raises(PrivacyError, match="whole number of at least 1"):
        DAILY.for_window(0)


@pytest.mark.parametrize("made", [DAILY, HIDDEN, PRINTED, HIDDEN.for_messages(9)])
def test_a_guarantee_survives_json(made):
    again = Guarantee.from_dict(json.loads(json.dumps(made.to_dict())))
    assert again == made
    assert str(again) == str(made)


def test_nothing_wanted_is_nothing_promised():
    none = promise(NoPrivacy(), laws.Average())
    assert none.epsilon == math.inf
    assert none.for_messages(5).status is Status.NONE


@pytest.mark.parametrize(
    ("want", "law", "erratum"),
    [
        (NetworkDP(1.0), "average", "erratum 5"),
        (SignalDP(1.0), "first-order", "erratum 9"),
        (NetworkDP(1.0), "jacobi", "No privacy"),
    ],
)
def test_what_is_not_proved_warns_and_is_refused_when_strict(want, law, erratum):
    setting = ({"mu": 0.0}, MIXING, Normal(sigma=1.0), want, law, 3)
    with pytest.warns(PrivacyWarning, match=erratum):
        mm.sweep(*setting)
    with pytest.raises(PrivacyError, match="strict mode"):
        mm.sweep(*setting, strict=True)
    with pytest.raises(PrivacyError, match="strict mode"):
        mm.estimate(np.zeros(15), *setting[1:], strict=True)


def test_what_is_proved_or_not_asked_for_is_silent():
    for want in (SignalDP(1.0), NoPrivacy()):
        assert mm.sweep({"mu": 0.0}, MIXING, Normal(sigma=1.0), want, rounds=3, strict=True)


def test_a_transcript_tells_no_more_of_a_signal_than_everything_does():
    """It was said to be "all messages over 1 rounds", whatever the run."""
    assert DAILY.for_messages(3).for_transcript() == DAILY
    assert "all messages of all agents" in str(DAILY.for_stream(7).for_transcript())
    assert DAILY.for_stream(7).for_transcript().epsilon == 7
