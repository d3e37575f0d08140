"""`veilsum up` of a masked sum: keys and nonce are made for the run, and nothing else is shared."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from veilsum.agents import LaunchOptions, Manifest
from veilsum.agents.local_cluster.cluster import prepare
from veilsum.agents.local_cluster.plan import DeploymentPlan, restrict, signing_key_file
from veilsum.agents.masked.terms import MaskedTerms
from veilsum.agents.pki import SigningKey
from veilsum.errors import VeilsumError
from veilsum.scenario import Scenario

EXAMPLE = Path(__file__).parents[3] / "examples" / "masked-feeder.toml"
FEEDER = Scenario.load(EXAMPLE)


def manifest(plan: DeploymentPlan) -> Manifest:
    return Manifest.from_json(plan.manifest)


@pytest.mark.parametrize("insecure", [True, False])
def test_every_agent_has_a_signing_key_that_the_manifest_pins(
    tmp_path: Path, insecure: bool
) -> None:
    plan, problem, _ = prepare(FEEDER, LaunchOptions(processes=2, insecure=insecure), tmp_path)
    made = manifest(plan)
    for number, pinned in enumerate(made.signing_keys):
        file = signing_key_file(plan.folder, number)
        assert SigningKey.load(file).public == pinned
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    terms = MaskedTerms.of(made, problem.family)
    assert (terms.parameters.n, terms.parameters.colluders, terms.parameters.absent) == (50, 10, 5)
    assert (made.attempts, made.quorum) == (1, 45)
    assert {device for _, device in made.members} == {"process-1", "process-2"}


def test_two_runs_have_nothing_in_common(tmp_path: Path) -> None:
    options = LaunchOptions(processes=1, insecure=True)
    first, second = (
        manifest(prepare(FEEDER, options, tmp_path / name)[0]) for name in ("one", "two")
    )
    assert first.nonce != second.nonce
    assert not set(first.signing_keys) & set(second.signing_keys)


def test_fewer_agents_are_a_masked_sum_of_their_own(tmp_path: Path) -> None:
    options = LaunchOptions(agents=30, processes=1, insecure=True)
    plan, problem, _ = prepare(FEEDER, options, tmp_path)
    made = manifest(plan)
    assert dict(made.options)["members"] == 30
    assert len(made.signing_keys) == 30
    assert MaskedTerms.of(made, problem.family).parameters.n == 30
    with pytest.raises(VeilsumError, match="n - colluders - 2 absent must be at least 2"):
        Manifest.of(restrict(problem, 21))


def test_keys_are_in_no_file_of_the_plan(tmp_path: Path) -> None:
    plan, _, _ = prepare(FEEDER, LaunchOptions(processes=1, insecure=True), tmp_path)
    text = plan.save().read_text()
    key = SigningKey.load(signing_key_file(plan.folder, 0))
    private = key.private.private_bytes_raw()
    assert key.public in text
    assert private.hex() not in text
    assert "PRIVATE" not in text
    assert private.hex() not in repr(key)


def test_weights_that_cannot_be_computed_anew_are_named(tmp_path: Path) -> None:
    """Before, the mangled name of a network with failing links was refused as a scheme."""
    ring = Scenario.load(EXAMPLE.parent / "ring-with-failing-links.toml")
    with pytest.raises(
        VeilsumError, match=r"--agents cannot reduce a network with .*; leave it out"
    ):
        prepare(ring, LaunchOptions(agents=6, processes=1, insecure=True), tmp_path)
