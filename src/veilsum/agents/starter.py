"""The first agent.toml of a site, made from the scenario: name, neighbours and budget filled in."""

from __future__ import annotations

import json
from pathlib import Path

from veilsum._numbers import upward
from veilsum.agents.manifest import Manifest
from veilsum.agents.membership.drafts import EPOCH_FILE, known_addresses
from veilsum.agents.release import ReleaseMechanism
from veilsum.agents.scenario_terms import problem_and_manifest
from veilsum.privacy.accounting import repeated
from veilsum.scenario import Scenario
from veilsum.simulation import Problem

PORT = 7447
TEXT = """\
# One agent of a veilsum network; every path is relative to this file. Before the first start:
#
#   veilsum doctor {file}
#
# Errors name the line. Editors check the file with the output of `veilsum schema agent`.

name = {name}
scenario = {scenario}                # the same file on every site
listen = [{listen}]

[peers]                              # where its neighbours listen: names on their certificates
{peers}

[keys]
folder = "keys"                      # ca.pem, {device}.pem, {device}.key: {how}
{signing}
[ledger]
path = {ledger}           # what was released and spent; keep it

[membership]
file = {epoch}                  # a later epoch comes here, signed: `veilsum members rollout`

[budget]                             # the most this agent spends, whatever the scenario asks for
{budget}

[readings]
csv = "readings.csv"                 # followed as it grows
column = "load"                      # the column with the readings
# key = "hour"                       # what identifies a reading, such as a column with its time

# [observers]                        # who may read its status: `veilsum watch`, docs/agents.md
# allow = ["control-room"]           # names on observer certificates
"""


SIGNING = """\
                                     # and {name}.signing.key, whose public half all sites pin
"""


def starter(scenario: str | Path, name: str, file: str = "agent.toml") -> str:
    """An agent.toml to start from.

    Parameters
    ----------
    scenario : str or Path
        The scenario of the network, as it is to be written into the file.
    name : str
        The label of the agent.
    file : str
        What the file will be called.

    Returns
    -------
    str
        TOML, with the neighbours and the budget of one run.

    Raises
    ------
    VeilsumError
        If the scenario is wrong, agents cannot run it, or it has no such member.
    """
    problem, manifest = problem_and_manifest(Scenario.load(scenario), pinned=False)
    neighbours = sorted(manifest.link_weights(name))
    budget = _masked_budget(manifest) if manifest.masked else _budget(manifest, problem, name)
    known = known_addresses(Path(scenario).parent)
    hosts = {
        peer: known.get(peer, f"tls/{manifest.certificates[peer]}.example:{PORT}")
        for peer in neighbours
    }
    return TEXT.format(
        file=file,
        name=json.dumps(name),
        scenario=json.dumps(str(scenario)),
        listen=json.dumps(known.get(name, f"tls/0.0.0.0:{PORT}")),
        epoch=json.dumps(str(Path(scenario).parent / EPOCH_FILE)),
        peers="\n".join(f"{json.dumps(peer)} = {json.dumps(at)}" for peer, at in hosts.items()),
        device=manifest.certificates[name],
        how="`veilsum keys request`",
        signing=SIGNING.format(name=name) if manifest.masked else "",
        ledger=json.dumps(f"{name}.ledger"),
        budget=budget,
    )


def _budget(manifest: Manifest, problem: Problem, name: str) -> str:
    """What all releases of a run cost."""
    cost = ReleaseMechanism(manifest, problem, name).event(1)
    assert cost is not None, "an agent without a guarantee is refused"
    readings = max(manifest.rounds, 1) if manifest.made_algorithm.online else 1
    each = f"# {readings:,} readings at {cost.epsilon:g}" if readings > 1 else "# one reading"
    endless = manifest.made_algorithm.online and not manifest.rounds
    if endless:
        each = "# on each reading: the stream has no end"
    total = repeated(cost, readings)
    budget = f"epsilon = {upward(total.epsilon, 6).replace(',', ''):<24} {each}"
    if endless:
        budget += '\nunit = "event"'
    if cost.delta:
        budget += f"\ndelta = {upward(total.delta, 6)}"
    return budget


def _masked_budget(manifest: Manifest) -> str:
    """What all attempts of a masked sum cost; in a stream, for each reading."""
    tries, epsilon = manifest.attempts, manifest.epsilon
    each = f"# a query of up to {tries} attempts" if tries > 1 else "# a query of one attempt"
    budget = f"epsilon = {epsilon:<24g} {each}"
    if manifest.made_algorithm.online:
        budget += ', for each reading\nunit = "event"'
    return budget
