"""Every run comes with a promise whose standing is right."""

import json

import pytest

from murmura import laws
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
        (NetworkDP(1.0), laws.LearnNetwork(), "proved", "one message"),
        (NetworkDP(1.0), laws.Average(), "claimed", "erratum 5"),
        (NetworkDP(1.0), CHEBYSHEV, "none", "signal protection"),
        (SignalDP(**PRINTED), laws.Learn(), "claimed", "erratum 2"),
        (NetworkDP(**PRINTED), laws.LearnNetwork(), "claimed", "erratum 2"),
        (SignalDP(1.0), laws.FirstOrder(), "none", "without noise"),
        (NetworkDP(1.0), laws.FirstOrderEdges(), "none", "averages the links' noise away"),
        (SignalDP(1.0), laws.FirstOrderOnline(), "proved", "share of the budget"),
        (NetworkDP(1.0), laws.NaiveNetwork(), "proved", "k messages cost k times"),
        (NoPrivacy(), laws.Average(), "none", "no noise is added"),
    ],
)
def test_standing(want, law, status, words):
    found = promise(want, law)
    assert found.status == status
    assert words in str(found)
    assert json.loads(json.dumps(found.to_dict()))["status"] == status


def test_a_promise_names_its_unit_and_its_adversary():
    text = str(promise(SignalDP(1.0, radius=0.5), laws.Average()))
    assert "moves by at most 0.5 in its own units" in text
    assert "against whoever sees all messages of all agents" in text
    assert "(1)-differential privacy" in text
    assert "(1, 0.01)-differential" in str(promise(SignalDP(**PRINTED), laws.Average()))
