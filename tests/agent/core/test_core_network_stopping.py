"""Network DP and stopping within a tolerance exclude each other: ranges are estimates as they are.

Before the pair was refused, agent 1 of a ring told agent 2 the estimate of agent 0 to the bit.
"""

from dataclasses import replace

import pytest
from core_cases import problem, releases

from murmura import network, privacy
from murmura.agent.core import Core
from murmura.agent.core.rehearsal import Rehearsal
from murmura.agent.events import Send
from murmura.agent.manifest import Manifest
from murmura.agent.messages import Totals
from murmura.errors import AgentError, PrivacyError
from murmura.privacy import NetworkDP

RING = network.lazy_metropolis(network.ring(6))
TODO = problem("learn-network", RING, NetworkDP(1.0), 12)


def test_one_function_decides():
    assert privacy.stopping_conflict("network", 0.5)
    assert privacy.stopping_conflict("network", 1e-300)
    assert not privacy.stopping_conflict("network", 0.0)
    assert not privacy.stopping_conflict("signal", 0.5)
    with pytest.raises(PrivacyError, match="leave tolerance out"):
        privacy.check_stopping("network", 0.5)


def test_no_manifest_asks_for_both_however_it_is_made():
    plain = Manifest.of(TODO, rounds=12)
    with pytest.raises(AgentError, match="without noise"):
        Manifest.of(TODO, tolerance=1e-3)
    with pytest.raises(AgentError, match="without noise"):
        replace(plain, tolerance=1e-3)
    forged = plain.to_json().replace('"tolerance":0.0', '"tolerance":0.25')
    assert forged != plain.to_json()
    with pytest.raises(AgentError, match="without noise"):
        Manifest.from_json(forged)


@pytest.mark.parametrize("tolerance", [float("nan"), float("inf"), -1.0])
def test_a_tolerance_is_a_number(tolerance):
    with pytest.raises(AgentError, match="finite number of at least 0"):
        replace(Manifest.of(TODO), tolerance=tolerance)


def forced(tolerance):
    """A manifest that went around its own checks."""
    made = Manifest.of(TODO)
    object.__setattr__(made, "tolerance", tolerance)
    return made


def test_the_core_refuses_what_went_around_the_manifest():
    with pytest.raises(AgentError, match="without noise"):
        Core(forced(1e-3), "0")


def ranges_said(manifest, core=Core):
    """Every range that crosses a link in a run, by sender."""
    said = []

    class Spied(Rehearsal):
        def perform(self, player, action):
            message = getattr(action, "message", None)
            if isinstance(action, Send) and isinstance(message, Totals) and message.extremes.low:
                said.append((player.label, message.extremes.low))
            super().perform(player, action)

    run = Spied(manifest, core=core)
    for label, own in releases(TODO, manifest).items():
        run.release(label, own)
    run.start()
    run.run(30)
    return said


def test_under_network_dp_no_range_is_ever_said():
    assert ranges_said(Manifest.of(TODO)) == []


def test_a_weakened_twin_says_the_ranges_that_are_refused(monkeypatch):
    monkeypatch.setattr("murmura.agent.core.stopping.check_stopping", lambda *_: None)
    assert ranges_said(forced(1e-3))
