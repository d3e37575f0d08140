"""Network DP and stopping within a tolerance exclude each other: ranges are estimates as they are.

Before the pair was refused, agent 1 of a ring sent agent 2 the estimate of agent 0 to the bit.
"""

from dataclasses import replace
from typing import Any

import pytest

from tests.agents.protocol.cases import problem, releases
from veilsum import networks
from veilsum.agents.events import Send
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import CumulativeMass
from veilsum.agents.protocol import Agent
from veilsum.errors import AgentError, PrivacyError
from veilsum.privacy import NetworkDP, proofs
from veilsum.testing import SimulatedNetwork

RING = networks.lazy_metropolis(networks.ring(6))
PROBLEM = problem("learn-network", RING, NetworkDP(1.0), 12)


def test_one_function_decides() -> None:
    assert proofs.stopping_conflict("network", 0.5)
    assert proofs.stopping_conflict("network", 1e-300)
    assert not proofs.stopping_conflict("network", 0.0)
    assert not proofs.stopping_conflict("signal", 0.5)
    with pytest.raises(PrivacyError, match="leave tolerance out"):
        proofs.check_stopping("network", 0.5)


def test_no_manifest_asks_for_both_however_it_is_made() -> None:
    plain = Manifest.of(PROBLEM, rounds=12)
    with pytest.raises(AgentError, match="without noise"):
        Manifest.of(PROBLEM, tolerance=1e-3)
    with pytest.raises(AgentError, match="without noise"):
        replace(plain, tolerance=1e-3)
    forged = plain.to_json().replace('"tolerance":0.0', '"tolerance":0.25')
    assert forged != plain.to_json()
    with pytest.raises(AgentError, match="without noise"):
        Manifest.from_json(forged)


@pytest.mark.parametrize("tolerance", [float("nan"), float("inf"), -1.0])
def test_a_tolerance_is_a_number(tolerance: Any) -> None:
    with pytest.raises(AgentError, match="finite number of at least 0"):
        replace(Manifest.of(PROBLEM), tolerance=tolerance)


def forced(tolerance: Any) -> Any:
    """A manifest that went around its own checks."""
    made = Manifest.of(PROBLEM)
    object.__setattr__(made, "tolerance", tolerance)
    return made


def test_the_core_refuses_what_went_around_the_manifest() -> None:
    with pytest.raises(AgentError, match="without noise"):
        Agent(forced(1e-3), "0")


def ranges_said(manifest: Any, agent: Any = Agent) -> Any:
    """Every range that crosses a link in a run, by sender."""
    said = []

    class Spied(SimulatedNetwork):
        def perform(self, host: Any, action: Any) -> None:
            message = getattr(action, "message", None)
            if (
                isinstance(action, Send)
                and isinstance(message, CumulativeMass)
                and message.range_report.low
            ):
                said.append((host.label, message.range_report.low))
            super().perform(host, action)

    run = Spied(manifest, agent=agent)
    for label, own in releases(PROBLEM, manifest).items():
        run.release(label, own)
    run.start()
    run.run(30)
    return said


def test_under_network_dp_no_range_is_ever_said() -> None:
    assert ranges_said(Manifest.of(PROBLEM)) == []


def test_a_weakened_variant_sends_the_ranges_that_are_refused(monkeypatch: Any) -> None:
    monkeypatch.setattr("veilsum.agents.protocol.termination.check_stopping", lambda *_: None)
    assert ranges_said(forced(1e-3))
