"""The term `clip`: where it is set, what it is refused with, and that nothing ignores it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import veilsum
from veilsum.agents import Manifest, mixing
from veilsum.agents.conservation import check_clipping, keeps_weights_equal, supported
from veilsum.agents.membership.adoption import check_successor
from veilsum.agents.release import guarantee
from veilsum.agents.scenario_terms import problem_and_manifest
from veilsum.algorithms import ALGORITHMS
from veilsum.cli.app import app
from veilsum.errors import AgentError, ScenarioError, VeilsumError
from veilsum.scenario import Scenario

TEXT = """
[network]
graph = "star:5"
weights = "{weights}"
[family]
name = "normal"
sigma = 1.0
bounds = [0.0, 100.0]
[signals]
draw = {{ mu = 50.0 }}
[privacy]
protect = "{protect}"
epsilon = 1.0
[algorithm]
name = "{algorithm}"
rounds = 60
[agents]
{agents}
"""


def scenario(
    agents: str = "clip = 5.0",
    algorithm: str = "average",
    protect: str = "signal",
    weights: str = "lazy-metropolis",
) -> Scenario:
    text = TEXT.format(agents=agents, algorithm=algorithm, protect=protect, weights=weights)
    return Scenario.parse(text, name="clipped")


def manifest(**options: str) -> Manifest:
    return problem_and_manifest(scenario(**options))[1]


def test_it_is_a_term_that_all_agree_on() -> None:
    plain, clipped, wider = manifest(agents=""), manifest(), manifest(agents="clip = 6.0")
    assert (plain.clip, clipped.clip) == (0.0, 5.0)
    assert len({plain.digest, clipped.digest, wider.digest}) == 3
    assert clipped.first_difference(wider.field_digests) == "clip"
    assert "clip" not in json.loads(plain.to_json())
    for one in (plain, clipped):
        assert Manifest.from_json(one.to_json()) == one
    with pytest.raises(AgentError, match=r"epoch 2 changes clip from 5\.0 to 0\.0"):
        check_successor(clipped, replace(clipped, epoch=2, clip=0.0))


def test_both_ends_have_the_same_weight_and_radius_to_the_bit() -> None:
    given = manifest()
    skewed = replace(
        given, links=tuple((a, b, w * (1 + 1e-13) if a == "0" else w) for a, b, w in given.links)
    )
    for one in skewed.labels:
        for peer, radius in skewed.radii(one).items():
            assert radius == skewed.radii(peer)[one] > 0
            assert skewed.link_weights(one)[peer] == skewed.link_weights(peer)[one]
    plain = replace(skewed, clip=0.0)
    assert plain.link_weights("0")["1"] != plain.link_weights("1")["0"]


def test_for_which_algorithms_weights_stay_equal() -> None:
    found = [name for name in supported() if keeps_weights_equal(ALGORITHMS[name]())]
    assert found == ["average"]
    for name in set(supported()) - set(found):
        with pytest.raises(AgentError, match=f"algorithm {name} they may not.*use average"):
            check_clipping(ALGORITHMS[name]())


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"agents": "clip = 5.0\nasynchronous = true"}, "leave asynchronous out"),
        ({"agents": "clip = 5.0\nopen_ended = true"}, "leave open_ended out"),
        ({"agents": "clip = -1.0"}, "agents.clip"),
        ({"agents": "clip = nan"}, "agents.clip"),
        ({"agents": "clip = inf"}, "agents.clip"),
        ({"algorithm": "learn"}, r"line 18: agents\.clip: .*algorithm learn they may not"),
        ({"algorithm": "push-sum"}, "algorithm push-sum they may not"),
        ({"algorithm": "jacobi"}, "does not conserve mass"),
        ({"algorithm": "learn-network", "protect": "network"}, r"agents\.clip: .*linear"),
        ({"agents": "clip = 1e-40"}, "nothing would ever move"),
    ],
)
def test_what_it_is_refused_with_and_where(options: Any, error: str) -> None:
    with pytest.raises(VeilsumError, match=error):
        manifest(**options)


@pytest.mark.parametrize(
    ("terms", "error"),
    [
        ({"rounds": 0}, "needs rounds in common with a last one"),
        ({"asynchronous": True}, "asynchronous agents have none"),
        ({"protect": "network"}, "not for Network DP"),
        ({"algorithm": "learn"}, "algorithm learn they may not"),
        ({"clip": -5.0}, "clip"),
        ({"clip": float("nan")}, "clip"),
        ({"links": (("0", "1", 0.25), ("1", "0", 0.3))}, "needs symmetric weights"),
    ],
)
def test_a_manifest_refuses_it_however_it_was_made(terms: Any, error: str) -> None:
    with pytest.raises(VeilsumError, match=error):
        replace(manifest(), **terms)


def test_a_masked_sum_refuses_it() -> None:
    text = TEXT.format(
        agents="clip = 5.0", algorithm="masked-sum", protect="signal", weights="metropolis"
    )
    masked = text.replace("epsilon = 1.0", 'epsilon = 1.0\nmode = "masked"\ncolluders = 1')
    with pytest.raises(AgentError, match="a masked sum has no such rounds"):
        problem_and_manifest(Scenario.parse(masked), pinned=False)


def test_the_guarantee_is_the_same_with_and_without() -> None:
    family = scenario().build().problem.family
    plain, clipped = guarantee(manifest(agents=""), family), guarantee(manifest(), family)
    assert plain == clipped
    assert str(plain) == str(clipped)


def test_nothing_simulates_plain_rounds_in_its_place(tmp_path: Path) -> None:
    where = r"line 18: agents\.clip: found 5; agents clip .*use `veilsum up`"
    for call in (
        lambda: veilsum.run(scenario()).results,
        lambda: scenario().build().run(),
        lambda: scenario().build().solve(),
    ):
        with pytest.raises(ScenarioError, match=where):
            call()
    (tmp_path / "clipped.toml").write_text(scenario().text)
    for verb in ("run", "plan", "sweep"):
        out = ["--out", str(tmp_path / verb)]
        said = CliRunner().invoke(app, [verb, str(tmp_path / "clipped.toml"), *out])
        assert said.exit_code == 2, verb
        assert "agents.clip: found 5" in said.output.replace("\n", " "), verb
    assert scenario(agents="").build().run().guarantee


def test_weights_of_releases_are_not_those_of_plain_rounds() -> None:
    counts = [1] * 5
    clipped = mixing.release_weights(manifest(), "1", counts, 3)
    plain = mixing.release_weights(manifest(agents=""), "1", counts, 3)
    assert clipped.weight.tolist() == [0.2] * 5
    assert clipped.undone == float("inf")
    assert plain.weight.max() > 0.3
