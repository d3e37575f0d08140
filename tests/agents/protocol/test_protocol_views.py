"""Who takes part: late starts, lost members, broken links; the mean of a stated set, or no result."""

from dataclasses import replace
from typing import Any

import pytest

from tests.agents.protocol.cases import problem, released, releases, small
from veilsum import networks
from veilsum.agents.events import AgentReport, Done, Send
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import Attendance, CumulativeMass, Hello
from veilsum.agents.protocol import Agent, Options
from veilsum.agents.protocol.gathering import Gathering
from veilsum.agents.protocol.link import Link
from veilsum.agents.transport.memory import Faults
from veilsum.privacy import NetworkDP
from veilsum.testing import SimulatedNetwork

ROUNDS = 150  # of a ring of 4 and of a path of 3: what is not mixed is below 1e-9
TIMES: Any = {"gathering": 30.0, "lost_after": 60.0}
SLOW = Faults(delay=(0.001, 0.02))
LOSSY = Faults(drop=0.2, duplicate=0.2, reorder=0.2, delay=(0.001, 0.05))


def ring(quorum: Any = None, rounds: Any = ROUNDS, size: Any = 4, **more: Any) -> Any:
    net = networks.lazy_metropolis(networks.ring(size))
    return small(net=net, rounds=rounds, quorum=quorum, **(TIMES | more))


def begun(terms: Any, *labels: Any, options: Any = None, **more: Any) -> Any:
    run = SimulatedNetwork(terms, options=options or Options(linger=200.0), **more)
    for label in run.agents:
        run.release(label, [released(terms, 1, float(label) ** 2)])
    run.start(*labels)
    return run


def reasons(run: Any) -> Any:
    return {label: host.done.reason for label, host in run.agents.items() if host.done is not None}


def reported(run: Any, kind: Any) -> Any:
    return [(who, report.text) for who, report in run.reports if report.kind == kind]


def stated(run: Any, label: Any) -> Any:
    """The mean of what the members released whose readings an agent says are in its result."""
    done = run.agents[label].done
    own = [r for k in done.coverage.contributing for r in run.agents[k].released]
    return sum(r.sums[0] for r in own) / sum(r.weight for r in own)


def check(run: Any, quorum: Any) -> None:
    """The mean of the stated set, of at least the quorum, or no result; never anything else."""
    for label, host in run.agents.items():
        if host.killed:
            continue
        done = host.outcome
        if done.estimate:
            assert done.reason == "rounds"
            assert done.coverage.meets(quorum)
            assert label in done.coverage.contributing
            assert abs(done.estimate[0] - stated(run, label)) <= 1e-9, (label, done)
        else:
            assert done.reason in ("quorum", "excluded", "late")
            assert done.coverage.count == 0


@pytest.mark.parametrize("late", [8.0, 3600.0])
@pytest.mark.parametrize("algorithm", ["average", "learn"])
def test_who_starts_late_is_waited_for(late: Any, algorithm: Any) -> None:
    terms = small(algorithm, rounds=ROUNDS, **TIMES)
    run = SimulatedNetwork(terms)
    for label in run.agents:
        own = [released(terms, t, float(label)) for t in range(1, 1 + terms.rounds)]
        run.release(label, own if algorithm == "learn" else own[:1])
    run.start("0", "1", "3")
    run.run(late, until_done=False)
    assert {agent.round for agent in run.running.values()} == {0}
    assert not any(agent.gathered for agent in run.running.values())  # nothing is charged
    assert reasons(run) == {}
    said = [text for who, text in reported(run, "gathering") if who == "0"]
    assert len(said) == (1 if late < 60 else 60)
    assert said[0] == "waiting for 1 of 4 members: 2"
    assert ("1", "waiting for 1 of 4 members: 2 (never heard)") in reported(run, "gathering")
    run.start("2")
    assert run.run(60)
    assert all(host.outcome.coverage.complete for host in run.agents.values())
    for (estimate,) in run.estimates().values():
        assert abs(estimate - 1.5) <= (1e-9 if algorithm == "average" else 0.1)
    run.run(10, until_done=False)
    assert all(agent.settled for agent in run.running.values())


def test_a_variant_that_does_not_gather_leaves_the_late_one_out(monkeypatch: Any) -> None:
    monkeypatch.setattr(Gathering, "ready", True)
    run = begun(ring(), "0", "1", "3")
    run.run(8, until_done=False)
    assert any(agent.round for agent in run.running.values())


def lost(terms: Any, at: Any, seed: Any = 0, **more: Any) -> Any:
    """A ring of which agent 2 is killed as soon as it is in some round."""
    more = {"faults": SLOW, "seed": seed} | more
    run = begun(terms, **more)
    while run.running["2"].round < at:
        run.step()
    run.kill("2", announced=seed % 2 == 0)
    assert run.run(4000), reasons(run)
    return run


@pytest.mark.parametrize("quorum", [3, 4])
@pytest.mark.parametrize("at", [1, 2, 7, ROUNDS - 1, ROUNDS])
def test_a_member_that_is_killed_leaves_the_mean_of_a_stated_set(quorum: Any, at: Any) -> None:
    outcomes = set()
    for seed in range(4):
        run = lost(ring(quorum), at, seed)
        check(run, quorum)
        outcomes |= {(d.reason, d.coverage.count) for d in (run.agents[k].outcome for k in "013")}
        assert agreed(run)
    after = ("rounds", 3) if quorum == 3 else ("quorum", 0)
    assert outcomes <= {("rounds", 4), after}
    if at < ROUNDS:
        assert outcomes == {after}


def agreed(run: Any) -> Any:
    """Whether those that are left state the same set."""
    return len({run.agents[k].outcome.coverage for k in "013"}) == 1


def test_a_variant_that_does_not_wait_for_the_others_at_the_end_is_caught() -> None:
    class Impatient(Agent):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.gathering.complete = self.completion.finish  # type: ignore[method-assign]

    found = []
    for seed in range(4):
        run = begun(ring(3), faults=SLOW, seed=seed, agent=Impatient)
        while run.running["0"].round < ROUNDS:
            run.step()
        for _ in range(seed):
            run.step()
        run.kill("2")
        found.append(run.run(300) and agreed(run))
    assert not all(found)


@pytest.mark.slow
@pytest.mark.parametrize("quorum", [3, 4])
def test_a_member_that_is_killed_in_every_round_over_a_bad_network(quorum: Any) -> None:
    for at in range(1, ROUNDS + 1, 2):
        check(lost(ring(quorum), at, seed=at, faults=LOSSY), quorum)


def test_a_variant_that_goes_on_without_a_new_view_ends_in_neither_mean(monkeypatch: Any) -> None:
    """As agents did: the silent neighbour is no longer waited for, and its mass stays where it is."""
    usual = Link._derive

    def derive(link: Any) -> None:
        usual(link)
        link.awaited = link.awaited and link.silent < 10

    def heedless(self: Any) -> None:
        for link in self._links.values():
            link.silent += self.period
            link._derive()

    monkeypatch.setattr(Link, "_derive", derive)
    monkeypatch.setattr(Gathering, "watch", heedless)
    monkeypatch.setattr(Gathering, "component", 0b1011)
    run = lost(ring(3), 2)
    with pytest.raises(AssertionError):
        check(run, 3)


def test_a_broken_link_costs_no_coverage() -> None:
    run = begun(ring(), faults=SLOW)
    while run.running["1"].round < 5:
        run.step()
    run.sever("1", "2")
    assert run.run(2000)
    assert {d.reason for d in (h.outcome for h in run.agents.values())} == {"rounds"}
    assert all(host.outcome.coverage.complete for host in run.agents.values())
    assert {agent.incarnation for agent in run.running.values()} == {2}
    check(run, 4)
    assert run.running["1"].links_status() == {"0": "done", "2": "dropped"}


def test_a_link_that_never_works_does_not_hold_up_the_gathering() -> None:
    run = begun(ring(), "0", "1")
    run.sever("1", "2")
    run.start("2", "3")
    run.run(40, until_done=False)
    assert max(agent.round for agent in run.running.values()) <= 1
    assert run.run(60)
    assert all(host.outcome.coverage.complete for host in run.agents.values())
    check(run, 4)


@pytest.mark.parametrize(("quorum", "ends"), [(2, "rounds"), (3, "quorum"), (4, "quorum")])
def test_halves_have_the_means_of_the_halves_or_nothing(quorum: Any, ends: Any) -> None:
    run = begun(ring(quorum), faults=SLOW)
    while run.running["1"].round < 5:
        run.step()
    run.network.partition({"0", "1"}, {"2", "3"})
    assert run.run(2000)
    assert set(reasons(run).values()) == {ends}
    check(run, quorum)
    if ends == "rounds":
        assert run.agents["0"].outcome.coverage.contributing == ("0", "1")
        assert run.agents["3"].outcome.coverage.contributing == ("2", "3")


def test_after_the_gathering_time_those_present_begin() -> None:
    run = begun(ring(3), "0", "1", "3")
    run.run(25, until_done=False)
    assert {agent.round for agent in run.running.values()} == {0}
    run.agents["2"].killed = True
    assert run.run(60)
    assert all(run.agents[k].outcome.coverage.contributing == ("0", "1", "3") for k in "013")
    assert {agent.incarnation for agent in run.running.values()} == {1}  # nothing had been sent
    check(run, 3)
    run.agents["2"].killed = False
    run.start("2")  # within the time the others linger
    assert not run.running["2"].gathered
    assert run.run(10)
    assert run.agents["2"].outcome[:3] == (0, (), "excluded")
    assert "went on without it" in reported(run, "excluded")[0][1]
    run.run(10, until_done=False)
    assert all(agent.settled for agent in run.running.values())


def test_below_the_quorum_the_gathering_goes_on() -> None:
    run = begun(ring(4), "0", "1", "3")
    run.run(20_000, until_done=False)
    assert reasons(run) == {}
    two = begun(ring(3), "0", "1")
    two.run(25, until_done=False)
    assert reasons(two) == {}
    for label in "23":
        two.agents[label].killed = True
    assert two.run(100)
    assert set(reasons(two).values()) == {"quorum"}


def test_a_wrong_manifest_is_named() -> None:
    terms = ring(3)
    run = SimulatedNetwork(terms)
    for label in run.agents:
        run.release(label, [released(terms, 1, float(label) ** 2)])
    run.agents["2"].manifest = replace(terms, epsilon=0.5)
    run.start()
    run.run(20, until_done=False)
    assert ("1", "waiting for 1 of 4 members: 2 (its manifest differs in epsilon)") in reported(
        run, "gathering"
    )
    assert run.running["1"].links_status()["2"] == "mismatched"
    run.agents["2"].killed = True
    assert run.run(100)
    assert run.agents["0"].outcome.coverage.missing == ("2",)
    run.agents["2"].killed = False
    check(SimpleView(run, "013"), 3)


class SimpleView:
    """Some agents of a run."""

    def __init__(self, run: Any, labels: Any) -> None:
        self.agents = {k: run.agents[k] for k in labels}


def test_who_comes_back_after_it_was_dropped_is_excluded() -> None:
    run = begun(ring(3), faults=SLOW)
    while run.running["2"].round < 9:
        run.step()
    run.crash("2")
    run.run(90, until_done=False)
    run.restart("2")
    assert run.run(100)
    assert reasons(run) == {"0": "rounds", "1": "rounds", "2": "excluded", "3": "rounds"}
    check(run, 3)


def test_who_comes_back_in_time_goes_on_and_nothing_is_lost() -> None:
    run = begun(ring(3), faults=SLOW)
    while run.running["2"].round < 9:
        run.step()
    run.crash("2")
    run.run(40, until_done=False)
    assert max(agent.round for agent in run.running.values()) <= 12
    run.restart("2")
    assert run.run(100)
    assert all(host.outcome.coverage.complete for host in run.agents.values())
    assert {agent.incarnation for agent in run.running.values()} == {1}
    check(run, 4)


@pytest.mark.parametrize("at", [1, 20, ROUNDS])
def test_a_member_that_lost_its_state_makes_all_begin_anew(at: Any) -> None:
    for seed in range(4):
        run = begun(ring(), faults=SLOW, seed=seed)
        while run.running["2"].round < at:
            run.step()
        run.start("2")
        assert run.run(500)
        assert set(reasons(run).values()) <= {"rounds", "late"}
        check(run, 4)
        if at < ROUNDS:
            assert set(reasons(run).values()) == {"rounds"}


def test_a_variant_that_exchanges_mass_with_the_new_incarnation_is_caught(monkeypatch: Any) -> None:
    monkeypatch.setattr(Link, "undo", lambda _: None)
    with pytest.raises(AssertionError):
        test_a_member_that_lost_its_state_makes_all_begin_anew(ROUNDS)


@pytest.mark.parametrize("who", ["0", "1", "3"])
def test_a_restart_in_the_middle_of_a_view_change(who: Any) -> None:
    """Killed at every step after agent 2 was found to be lost; what was saved is continued."""
    for steps in range(0, 60, 6):
        run = begun(ring(3), faults=SLOW, seed=steps)
        while run.running["2"].round < 4:
            run.step()
        run.kill("2")
        while not reported(run, "view"):
            run.step()
        for _ in range(steps):
            run.step()
        run.crash(who)
        run.run(2, until_done=False)
        run.restart(who)
        assert run.run(500), reasons(run)
        assert set(reasons(run).values()) == {"rounds"}
        assert {k: run.agents[k].outcome.coverage.count for k in "013"} == dict.fromkeys("013", 3)
        check(run, 3)


def test_a_new_view_draws_nothing_and_incarnations_rise_before_anything_is_sent() -> None:
    sent: list[Any] = []

    class Recorded(SimulatedNetwork):
        def perform(self, host: Any, action: Any) -> None:
            super().perform(host, action)
            if isinstance(action, Send) and isinstance(action.message, Hello | CumulativeMass):
                assert action.message.incarnation == host.incarnation  # what a ledger would hold
                sent.append((host.label, action.message.incarnation, action.message))

    run = Recorded(ring(3), faults=SLOW, options=Options(linger=200.0))
    for label in run.agents:
        run.release(label, [released(run.manifest, 1, float(label) ** 2)])
    run.start()
    while run.running["2"].round < 9:
        run.step()
    run.kill("2")
    assert run.run(500)
    for label in "013":
        own = [m for who, _, m in sent if who == label and isinstance(m, CumulativeMass)]
        where = [(m.incarnation, m.round) for m in own]
        assert where == sorted(where)
        assert {m.releases for m in own} == {1}
        assert len({m.head for m in own}) == 1
        assert max(where)[0] > 1


def network_dp(quorum: Any = 3) -> Any:
    net = networks.lazy_metropolis(networks.ring(4))
    todo = problem("learn-network", net, NetworkDP(0.5), rounds=10)
    return todo, Manifest.of(todo, quorum=quorum, **TIMES)


def hidden(agent: Any = Agent) -> Any:
    sent: list[Any] = []

    class Recorded(SimulatedNetwork):
        def perform(self, host: Any, action: Any) -> None:
            if isinstance(action, Send) and isinstance(action.message, CumulativeMass):
                sent.append(action.message)
            super().perform(host, action)

    todo, terms = network_dp()
    run = Recorded(terms, agent=agent, options=Options(linger=200.0))
    for label, own in releases(todo, terms).items():
        run.release(label, own)
    run.start()
    while run.running["2"].round < 5:
        run.step()
    run.kill("2")
    run.run(500)
    return run, sent


def test_where_neighbours_are_hidden_a_lost_member_means_no_result() -> None:
    run, sent = hidden()
    assert set(reasons(run).values()) == {"quorum"}
    assert {m.incarnation for m in sent} == {1}
    assert any("protects nothing" in text for _, text in reported(run, "quorum"))
    check(run, 3)


def test_a_variant_that_begins_anew_would_be_caught() -> None:
    class Again(Agent):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.gathering._manifest = replace(self.manifest, protect="signal")
            self.mass._keeps = True

    _, sent = hidden(Again)
    assert any(m.incarnation == 2 and any(m.sums) for m in sent)


def test_where_neighbours_are_hidden_those_present_may_still_begin_without_the_rest() -> None:
    todo, terms = network_dp()
    run = SimulatedNetwork(terms)
    for label, own in releases(todo, terms).items():
        run.release(label, own)
    run.start("0", "1", "3")
    run.agents["2"].killed = True
    assert run.run(200)
    assert set(reasons(run).values()) == {"rounds"}


def test_directed_links_that_no_longer_reach_everyone_give_no_result() -> None:
    import numpy as np

    arcs = np.array([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]])
    net = networks.column_stochastic(networks.as_graph(arcs))
    terms = small("push-sum", net, rounds=60, quorum=3, **TIMES)
    run = begun(terms, faults=SLOW)
    while run.running["2"].round < 5:
        run.step()
    run.kill("2")
    assert run.run(500)
    assert set(reasons(run).values()) == {"quorum"}


def test_an_agent_that_is_done_stays_for_those_who_are_not_and_says_who_never_came() -> None:
    run = begun(ring(3), "0", "1", "3", options=Options(linger=100.0))
    run.agents["2"].killed = True
    assert run.run(100)
    run.run(50, until_done=False)
    assert not any(agent.settled for agent in run.running.values())
    before = len(run.network.in_flight)
    run.run(100, until_done=False)
    assert all(agent.settled for agent in run.running.values())
    texts = reported(run, "unacknowledged")
    assert ("0", "not known to have ended after 100 s: 2") in texts
    assert before == 0


def test_attendance_that_nobody_may_send_is_rejected() -> None:
    run = begun(ring(), faults=SLOW)
    run.run(0.2, until_done=False)
    agent = run.running["0"]
    register = agent.flooding.register
    message = Attendance("1", "0", 1, agent.links["1"].known.run, register)
    for wrong, why in [
        (register._replace(present=1 << 4), "beyond the 4"),
        (register._replace(ended=1 << 9), "beyond the 4"),
        (register._replace(dropped=1 << 4), "beyond the 4"),
        (register._replace(readings=(1, 2, 3, 4)), "expected 0"),
    ]:
        actions = agent.handle(received(message._replace(register=wrong)))
        texts = [a.text for a in actions if isinstance(a, AgentReport) and a.kind == "rejected"]
        assert len(texts) == 1
        assert why in texts[0]
        assert agent.flooding.register == register
    stream = begun(small(asynchronous=True))
    stream.run(1, until_done=False)
    agent = stream.running["0"]
    register = agent.flooding.register._replace(dropped=1)
    message = Attendance("1", "0", 1, agent.links["1"].known.run, register)
    (report,) = agent.handle(received(message))
    assert "one view only" in report.text


def received(message: Any) -> Any:
    from veilsum.agents.events import Received

    return Received(message)


@pytest.mark.parametrize("faults", [SLOW, LOSSY], ids=["delay", "loss"])
def test_everyone_comes_to_the_same_coverage(faults: Any) -> None:
    """Online, where members have read differently much."""
    terms = small("learn", rounds=30, **TIMES)
    run = SimulatedNetwork(terms, faults=faults, seed=3)
    for k, label in enumerate(run.agents):
        run.release(label, [released(terms, t, 1.0) for t in range(1, 31 - 5 * k)])
    run.start()
    from veilsum.agents.events import NoMoreReadings

    for label in run.agents:
        run.feed(label, NoMoreReadings())
    assert run.run(500)
    found = {host.outcome.coverage.readings for host in run.agents.values()}
    assert found == {(30, 25, 20, 15)}


def test_a_result_is_one_event_and_survives_a_restart() -> None:
    done: list[Any] = []

    class Recorded(SimulatedNetwork):
        def perform(self, host: Any, action: Any) -> None:
            if isinstance(action, Done):
                done.append((host.label, action))
            super().perform(host, action)

    run = Recorded(ring(), faults=SLOW)
    for label in run.agents:
        run.release(label, [released(run.manifest, 1, float(label) ** 2)])
    run.start()
    assert run.run(60)
    assert sorted(label for label, _ in done) == ["0", "1", "2", "3"]
    first = dict(done)
    run.run(5, until_done=False)
    for label in "023":
        run.crash(label)
    run.restart("1")
    assert run.agents["1"].outcome == first["1"]
    assert run.running["1"].settled  # it remembers that all had ended
