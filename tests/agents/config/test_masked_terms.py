"""The terms of a masked sum: what a manifest must have, and the parameters that follow from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from veilsum import families
from veilsum.agents import Manifest, guarantee
from veilsum.agents.feasibility import refusal
from veilsum.agents.masked.terms import MaskedTerms
from veilsum.agents.release import check_guarantee, request_of
from veilsum.errors import AgentError, PrivacyError, VeilsumError
from veilsum.privacy import MaskedDP, Status, plan
from veilsum.scenario import Scenario
from veilsum.simulation import SyntheticSignals, simulate

NONCE = "0123456789abcdef" * 2
TEXT = """
name = "ring"
network = {{graph = "ring:9", weights = "metropolis"}}
family = {{name = "normal", sigma = 1.0{bounds}}}
signals = {{draw = {{mu = 0.5}}}}
privacy = {{protect = "signal", epsilon = 0.5, radius = 1, mode = "masked", colluders = 2, absent = 2{more}}}
algorithm = {{name = "masked-sum", rounds = 40{options}}}
"""


BATCHES = ", batches = {growth = 2.0, longest = 4}"


def scenario(
    bounds: str = ", bounds = [0.0, 4.0]", more: str = "", options: str = "",
    name: str = "masked-sum",
) -> Scenario:  # fmt: skip
    text = TEXT.format(bounds=bounds, more=more, options=options)
    return Scenario.parse(text.replace("masked-sum", name))


PROBLEM = scenario(more=", attempts = 2").build().problem
KEYS = {str(label): f"{k:064x}" for k, label in enumerate(PROBLEM.network.labels)}


def made(**terms: Any) -> Manifest:
    return Manifest.of(PROBLEM, "ring", **({"nonce": NONCE, "signing_keys": KEYS} | terms))


def test_a_manifest_has_all_terms_of_a_masked_sum_and_keeps_them() -> None:
    manifest = made()
    assert manifest.masked
    assert manifest.pinned
    numbers = (manifest.colluders, manifest.absent, manifest.attempts, manifest.steps)
    assert numbers == (2, 2, 2, 4096)
    assert (manifest.quorum, manifest.largest, manifest.unit) == (7, 4.0, 12)
    assert manifest.signing_keys == tuple(KEYS.values())
    again = Manifest.from_json(manifest.to_json())
    assert again == manifest
    assert again.digest == manifest.digest


def test_the_parameters_come_from_the_mechanism_alone() -> None:
    manifest = made()
    terms = MaskedTerms.of(manifest, PROBLEM.family)
    stated: Any = plan(PROBLEM.privacy, PROBLEM.family, members=9).mechanism()
    assert terms.parameters == stated.terms
    assert terms.parameters.largest_steps == 4 * 4096
    assert terms.parameters.range_steps == (0, 4 * 4096)
    assert terms.manifest == manifest.digest
    assert terms.nonce.hex() == NONCE
    assert terms.labels == manifest.labels
    assert [key.hex() for key in terms.keys.values()] == list(KEYS.values())


def test_the_request_and_the_guarantee_are_those_of_the_problem() -> None:
    manifest = made()
    assert request_of(manifest) == replace(PROBLEM.privacy, attempts=2, steps=4096)  # type: ignore[call-arg]
    found = guarantee(manifest, PROBLEM.family)
    assert found.status is Status.PROVED
    assert found.assumes == "computational"
    assert "up to 2 of the other members together" in str(found)
    assert str(found).startswith("Proved: differential privacy")
    assert "as long as nobody breaks X25519" in str(found)
    assert found.caveat
    assert found.epsilon == 0.5  # two attempts of 0.25
    assert found == guarantee(PROBLEM)
    check_guarantee(manifest, PROBLEM.family)


def test_every_term_is_bound_into_the_digest() -> None:
    """Two sites that differ in any of them find out which; equal ones do not differ."""
    manifest = made()
    others = {
        "colluders": replace(manifest, colluders=1),
        "absent": replace(manifest, absent=1, quorum=8),
        "attempts": replace(manifest, attempts=1),
        "steps": replace(manifest, steps=8192),
        "nonce": replace(manifest, nonce=NONCE[::-1]),
        "signing_keys": replace(manifest, signing_keys=(*manifest.signing_keys[:-1], "f" * 64)),
    }
    for name, other in others.items():
        assert other.digest != manifest.digest
        named = manifest.first_difference(other.field_digests)
        assert named == ("quorum" if name == "absent" else name)
    assert Manifest.from_json(manifest.to_json()).digest == manifest.digest


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"quorum": 9}, "quorum must be n - absent = 9 - 2"),
        ({"asynchronous": True}, "leave asynchronous and tolerance out"),
        ({"tolerance": 0.1}, "leave asynchronous and tolerance out"),
        ({"nonce": "ABC"}, "32 hexadecimal digits"),
        ({"nonce": NONCE.upper()}, "32 hexadecimal digits in lower case"),
        ({"signing_keys": KEYS | {"3": "12"}}, "signing key of 3 must have 64 hexadecimal"),
        ({"signing_keys": KEYS | {"3": KEYS["4"]}}, "3 and 4 have the same signing key"),
        ({"signing_keys": KEYS | {"who": "f" * 64}}, "signing_keys names who"),
        ({"signing_keys": {"0": KEYS["0"]}}, "signing_keys lacks 1, 2, 3"),
        ({"rounds": 0}, "open_ended"),
    ],
)
def test_terms_that_do_not_fit_are_refused(terms: dict[str, Any], said: str) -> None:
    with pytest.raises(AgentError, match=said.replace("(", r"\(")):
        made(**terms)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"bounds": ""}, "no public bounds"),
        ({"options": ", missing = 1"}, "leave missing out"),
        ({"options": ", restarts = 1", "more": ", attempts = 2"}, "leave restarts out"),
        ({"options": ", hops = 8"}, "leave hops out"),
        ({"options": ", delay = 2", "name": "masked-learn"}, "leave delay out"),
        (
            {"options": ", missing = 1", "name": "masked-learn", "more": BATCHES},
            "leave missing out",
        ),
    ],
)
def test_a_problem_that_agents_cannot_run_masked_is_refused(
    arguments: dict[str, str], said: str
) -> None:
    text = scenario(**arguments).with_()
    found = text.build()
    with pytest.raises(VeilsumError, match=said):
        Manifest.of(found.problem)
    assert said in refusal(found.problem, text.variants[0])


def test_too_many_colluders_are_refused() -> None:
    many = replace(PROBLEM, privacy=MaskedDP(1.0, colluders=4, absent=2))
    with pytest.raises(VeilsumError, match="n - colluders - 2 absent must be at least 2"):
        Manifest.of(many)
    Manifest.of(replace(PROBLEM, privacy=MaskedDP(1.0, colluders=3, absent=2)))


def test_more_components_than_a_message_has_are_refused_before_anything_runs() -> None:
    """By the parameters, the guarantee, the simulator and the manifest: 1,024 are accepted."""
    for count, said in ((1024, ""), (1025, "at most 1,024 components")):
        family = families.get("categorical", categories=count)
        source = SyntheticSignals(family, {"p": [1 / count] * count}, 9, seed=1)
        found = replace(PROBLEM, family=family, source=source)
        if not said:
            assert plan(found.privacy, family, found.algorithm).name == "masked"
            assert Manifest.of(found).dimension == count
            assert found.guarantee.status is Status.PROVED
            continue
        assert found.guarantee.status is Status.NONE
        with pytest.raises(PrivacyError, match=said):
            plan(found.privacy, family, found.algorithm)
        for refused in (lambda: Manifest.of(found), lambda: simulate(found)):  # noqa: B023
            with pytest.raises(VeilsumError, match=said):
                refused()


def test_a_masked_sum_is_planned_without_keys_and_not_run() -> None:
    planned = Manifest.of(PROBLEM, "ring")
    assert not planned.pinned
    assert refusal(PROBLEM, scenario().variants[0]) == ""
    with pytest.raises(AgentError, match="no nonce or no signing keys"):
        MaskedTerms.of(planned, PROBLEM.family)


def test_terms_of_a_masked_sum_do_not_go_with_local_noise() -> None:
    text = TEXT.replace(', mode = "masked", colluders = 2, absent = 2', "")
    local = Scenario.parse(
        text.replace("masked-sum", "average").format(
            bounds=", bounds = [0.0, 1.0]", more="", options=""
        )
    )
    problem = local.build().problem
    plain = Manifest.of(problem)
    assert not plain.masked
    assert plain.pinned
    for terms in ({"nonce": NONCE}, {"signing_keys": KEYS}):
        with pytest.raises(AgentError, match="belong to a masked sum"):
            Manifest.of(problem, **terms)
    with pytest.raises(AgentError, match='mode = "masked"'):
        MaskedTerms.of(plain, problem.family)


def test_a_masked_sum_without_privacy_is_refused() -> None:
    text = TEXT.replace(
        '"signal", epsilon = 0.5, radius = 1, mode = "masked", colluders = 2, absent = 2',
        '"nothing"',
    )
    bare = Scenario.parse(text.format(bounds=", bounds = [0.0, 1.0]", more="", options=""))
    with pytest.raises(AgentError, match="shows the sum as it is"):
        Manifest.of(bare.build().problem)


STREAM = TEXT.replace('"masked-sum", rounds = 40', '"masked-learn", rounds = 40')


@pytest.mark.parametrize(
    ("more", "terms", "longest"),
    [
        ("", {}, 0),  # a session for each reading
        (", batches = {growth = 2.0, longest = 8}", {}, 8),
        (", batches = {growth = 2.0}", {}, 40),  # no batch is longer than the stream
        (", batches = {growth = 2.0}", {"every": 3600.0}, 24),  # a day
        (", batches = {growth = 2.0, longest = 8}", {"rounds": 0}, 8),
    ],
)
def test_a_stream_of_masked_sums_has_a_longest_batch(
    more: str, terms: dict[str, Any], longest: int
) -> None:
    text = STREAM.format(bounds=", bounds = [0.0, 4.0]", more=more, options="")
    problem = Scenario.parse(text).build().problem
    manifest = Manifest.of(problem, nonce=NONCE, signing_keys=KEYS, **terms)
    assert manifest.masked
    assert manifest.longest_batch == longest
    found = MaskedTerms.of(manifest, problem.family).parameters
    assert found.longest_batch == max(longest, 1)  # what the modulus has room for
    assert guarantee(manifest, problem.family).status is Status.PROVED


def test_batches_without_a_longest_one_have_no_end_in_an_open_stream() -> None:
    more = ", batches = {growth = 2.0}"
    text = STREAM.format(bounds=", bounds = [0.0, 4.0]", more=more, options="")
    with pytest.raises(AgentError, match="up to a longest one only"):
        Manifest.of(Scenario.parse(text).build().problem, rounds=0)
