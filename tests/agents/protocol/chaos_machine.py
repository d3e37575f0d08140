"""A state machine that does to a small network whatever can be done, and weakened variants of agents.

Messages lie in a bag from which they are taken in any order, any number of times or never; agents
crash between any two of their actions and return with their state or in a new incarnation.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.agents.protocol.cases import released, small
from veilsum.agents.events import (
    Deadline,
    NoMoreReadings,
    PeerDown,
    PeerUp,
    Persist,
    Received,
    Send,
)
from veilsum.agents.messages import CumulativeMass
from veilsum.agents.protocol import Agent, Options
from veilsum.agents.protocol.states import Reachability
from veilsum.agents.transport.memory import Faults
from veilsum.testing import SimulatedNetwork

COUNT = st.integers(0, 2**16)
LAST = 150  # rounds of a run that ends: what is not mixed then is below 1e-9


class Bag(SimulatedNetwork):
    """A simulated network whose messages wait in a bag, and whose agents have a fuse."""

    def __init__(self, manifest: Any, **options: Any) -> None:
        super().__init__(manifest, **options)
        self.bag: list[Any] = []
        self.sent: set[Any] = set()
        self.fuse: int | None = None
        self.healed = False

    def perform(self, host: Any, action: Any) -> None:
        if self.fuse is not None:
            if self.fuse == 0:
                self.fuse = None
                self.crash(host.label)
                return
            self.fuse -= 1
        if isinstance(action, Send) and not self.healed:
            self.bag.append(action.message)
            self._note(action.message)
        else:
            if isinstance(action, Send):
                self._note(action.message)
            super().perform(host, action)

    def _note(self, message: Any) -> None:
        if isinstance(message, CumulativeMass):
            self.sent.add(message[:5] + message[6:8])

    def heal(self, rounds: Any) -> None:
        """Everybody returns, what is in the bag arrives, and the network works again."""
        self.healed, self.fuse = True, None
        self.network.faults = Faults(delay=(0.01, 0.02))
        for label, host in self.agents.items():
            if host.agent is None:
                self.restart(label)
        for message in self.bag:
            self.feed(message.receiver, Received(message))
        for label in self.agents:
            self.feed(label, NoMoreReadings())
        for agent in self.running.values():
            for link in agent.links.values():
                if link.reachability is Reachability.DOWN:
                    self.feed(agent.label, PeerUp(link.peer))
        goal, end = 0, 0.0
        for _ in range(20_000):
            agents = self.running.values()
            assert not any(agent.reason for agent in agents), "an agent has stopped"
            if not goal and all(k.may_send for agent in agents for k in agent.links.values()):
                goal = rounds + max(agent.round for agent in agents)  # from here on all take part
                end = self.network.now + 30.0
            if goal and min(agent.round for agent in agents) >= goal:
                return
            if goal and self.manifest.asynchronous and self.network.now >= end:
                return  # who has converged rests
            self.step()
        raise AssertionError("the agents do not go on")


class SavedTooLate(Bag):
    """A variant that sends first and persists afterwards; its fuse burns down to just between."""

    def perform(self, host: Any, action: Any) -> None:
        fuse, self.fuse = self.fuse, 0 if self.fuse and isinstance(action, Persist) else None
        super().perform(host, action)
        if not isinstance(action, Persist):
            self.fuse = fuse

    def feed(self, label: Any, event: Any) -> None:
        agent = self.agents[label].agent
        if agent is not None:
            actions = agent.handle(event)
            for action in sorted(actions, key=lambda a: isinstance(a, Persist)):
                if self.agents[label].agent is not None:
                    self.perform(self.agents[label], action)


class Increments(Agent):
    """A variant that sends what is new instead of the cumulative mass."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.claims.rise_refusal = lambda *_: ""  # type: ignore[method-assign]
        self.claims.net_refusal = lambda *_: ""  # type: ignore[method-assign]
        self._last: dict[str, Any] = {}
        self._send, self._receive = self.messenger.send_mass, self.mass.receive
        self.messenger.send_mass = self.send_increment  # type: ignore[method-assign]
        self.mass.receive = self.receive_increment  # type: ignore[method-assign]

    def send_increment(self, link: Any) -> None:
        self._send(link)
        message: Any = self.messenger.actions[-1].message  # type: ignore[union-attr]
        sums, weight = self._last.get(link.peer, ((0,), 0))
        self._last[link.peer] = message.sums, message.weight
        gained = tuple(a - b for a, b in zip(message.sums, sums, strict=True))
        self.messenger.actions[-1] = Send(
            message._replace(sums=gained, weight=message.weight - weight)
        )

    def receive_increment(self, link: Any, message: Any) -> None:
        whole = tuple(a + b for a, b in zip(message.sums, link.in_sums, strict=True))
        self._receive(link, message._replace(sums=whole, weight=message.weight + link.in_weight))


class OneIncarnation(Agent):
    """A variant that takes a neighbour's new incarnation for the old one."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.mass.roll_back = self.go_on  # type: ignore[method-assign]

    @staticmethod
    def go_on(link: Any, peer_incarnation: int, tag: bytes = b"") -> None:
        link.peer_incarnation, link.in_tag = peer_incarnation, tag


class Chaos(RuleBasedStateMachine):
    """Everything that may happen to four agents in a ring."""

    agent: type[Agent] = Agent
    bag: type[Bag] = Bag
    asynchronous = False

    def __init__(self) -> None:
        super().__init__()
        self.manifest = small(asynchronous=self.asynchronous)
        self.run = self.bag(self.manifest, agent=self.agent, options=Options(patience=4))
        self.labels = list(self.run.agents)
        self.given = 0
        for k, label in enumerate(self.labels[:3]):
            self.run.release(label, [released(self.manifest, 1, float(k * k))])
            self.given += k * k
        self.count = 3
        self.run.start()
        self.run.drain()
        self.flush(2)

    def flush(self, times: Any) -> None:
        for _ in range(times):
            bag, self.run.bag = self.run.bag, []
            for message in bag:
                self.run.feed(message.receiver, Received(message))

    def running(self, at: Any) -> Any:
        labels = list(self.run.running)
        return labels[at % len(labels)]

    @rule(at=COUNT, keep=st.booleans())
    @precondition(lambda self: self.run.bag)
    def deliver(self, at: Any, keep: Any) -> None:
        at %= len(self.run.bag)
        message = self.run.bag[at] if keep else self.run.bag.pop(at)
        self.run.feed(message.receiver, Received(message))

    @rule(times=st.integers(1, 4))
    def deliver_all(self, times: Any) -> None:
        self.flush(times)

    @rule(at=COUNT)
    @precondition(lambda self: self.run.bag)
    def lose(self, at: Any) -> None:
        del self.run.bag[at % len(self.run.bag)]

    @rule(at=COUNT, name=st.sampled_from(["round", "resend", "tick"]))
    @precondition(lambda self: self.run.running)
    def time_passes(self, at: Any, name: Any) -> None:
        self.run.feed(self.running(at), Deadline(name))

    @rule(at=COUNT, peer=COUNT, up=st.booleans())
    @precondition(lambda self: self.run.running)
    def one_side_sees(self, at: Any, peer: Any, up: Any) -> None:
        agent = self.run.running[self.running(at)]
        other = list(agent.links)[peer % len(agent.links)]
        self.run.feed(agent.label, PeerUp(other) if up else PeerDown(other))

    @rule(one=st.sets(st.integers(0, 3), max_size=3))
    def part_loses_all(self, one: Any) -> None:
        group = {self.labels[k] for k in one}
        across = [(m.sender in group) != (m.receiver in group) for m in self.run.bag]
        self.run.bag = [m for m, lost in zip(self.run.bag, across, strict=True) if not lost]

    @rule(fuse=st.integers(0, 6))
    def crash_soon(self, fuse: Any) -> None:
        self.run.fuse = fuse

    @rule(at=COUNT)
    @precondition(lambda self: self.run.running)
    def crash(self, at: Any) -> None:
        self.run.crash(self.running(at))
        self.run.drain()

    @rule(at=COUNT, anew=st.booleans())
    @precondition(lambda self: len(self.run.running) < len(self.run.agents))
    def come_back(self, at: Any, anew: Any) -> None:
        gone = [label for label in self.labels if label not in self.run.running]
        label = gone[at % len(gone)]
        (self.run.start if anew else self.run.restart)(label)
        self.run.drain()

    @rule(at=COUNT, value=st.integers(-100, 100))
    def release(self, at: Any, value: Any) -> None:
        label = self.labels[at % len(self.labels)] if self.asynchronous else self.labels[3]
        reading = len(self.run.agents[label].released) + 1
        if reading > 1 and not self.asynchronous:
            return  # an average has one reading of each
        self.run.release(label, [released(self.manifest, reading, float(value))])
        self.given += value
        self.count += 1

    @invariant()
    def nothing_is_lost_or_made(self) -> None:
        totals = self.run.totals()
        for present, transit, stale, put in zip(*totals.values(), strict=True):
            assert present + transit + stale == put
        for agent in self.run.running.values():
            before = list(agent.mass.sums), agent.mass.weight
            agent.mass.recount()
            assert (agent.mass.sums, agent.mass.weight) == before

    @invariant()
    def every_total_received_was_sent_and_is_remembered(self) -> None:
        for agent in self.run.running.values():
            for link in agent.links.values():
                if link.in_round and self.run.in_session(agent, link.peer):
                    there = self.run.running[link.peer]
                    key = (
                        link.peer,
                        agent.label,
                        there.incarnation,
                        agent.incarnation,
                        link.in_round,
                    )
                    assert (*key, link.in_sums, link.in_weight) in self.run.sent
                    assert there.links[agent.label].out_weight >= link.in_weight
                    assert there.round >= link.in_round

    @invariant()
    def honest_agents_are_not_rejected(self) -> None:
        texts = {report.text.split(":")[-1] for _, report in self.run.reports}
        assert not [text for text in texts if "total" in text and "incarnation" not in text]

    def teardown(self) -> None:
        self.run.heal(160)
        mean = self.given / self.count
        for label, (estimate,) in self.run.estimates().items():
            assert abs(estimate - mean) <= 1e-9, label


class Views(RuleBasedStateMachine):
    """Whatever may happen to four agents in a ring that run to a last round: kills for ever too.

    In the end every agent has the mean of the set of members that it states, or no result, and all
    in one component state the same set.
    """

    agent: type[Agent] = Agent
    quorum = 2
    clip = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.manifest = small(
            rounds=LAST, quorum=self.quorum, gathering=30.0, lost_after=60.0, clip=self.clip
        )
        faults = Faults(drop=0.1, duplicate=0.1, reorder=0.1, delay=(0.001, 0.02))
        options = Options(linger=300.0)
        self.run = SimulatedNetwork(
            self.manifest, agent=self.agent, options=options, faults=faults, seed=7
        )
        self.labels = list(self.run.agents)
        for k, label in enumerate(self.labels):
            self.run.release(label, [released(self.manifest, 1, float(k * k))])
        self.run.start(*self.labels[:3])

    def some(self, at: Any, wanted: Any) -> Any:
        found = [label for label in self.labels if wanted(self.run.agents[label])]
        return found[at % len(found)] if found else None

    @rule(at=COUNT)
    def start(self, at: Any) -> None:
        label = self.some(at, lambda host: host.agent is None and not host.killed)
        if label is not None:
            self.run.restart(label)

    @rule(steps=st.integers(1, 120))
    def steps(self, steps: Any) -> None:
        for _ in range(steps):
            self.run.step()

    @rule(steps=st.integers(0, 60))
    def nearly_the_end(self, steps: Any) -> None:
        """To the last round of somebody, where who knows what matters most."""
        for _ in range(6000):
            if any(agent.round >= LAST for agent in self.run.running.values()):
                break
            self.run.step()
        for _ in range(steps):
            self.run.step()

    @rule(seconds=st.sampled_from([1.0, 10.0, 35.0, 70.0]))
    def time_passes(self, seconds: Any) -> None:
        self.run.run(seconds, until_done=False)

    @rule(at=COUNT, announced=st.booleans())
    def crash(self, at: Any, announced: Any) -> None:
        label = self.some(at, lambda host: host.agent is not None)
        if label is not None:
            self.run.crash(label, announced=announced)

    @rule(at=COUNT)
    def lose_the_state(self, at: Any) -> None:
        label = self.some(at, lambda host: host.agent is not None)
        if label is not None:
            self.run.start(label)

    @rule(at=COUNT)
    @precondition(lambda self: sum(h.killed for h in self.run.agents.values()) < 2)
    def kill(self, at: Any) -> None:
        label = self.some(at, lambda host: not host.killed)
        self.run.kill(label)

    @rule(at=COUNT)
    def break_a_link(self, at: Any) -> None:
        pairs = self.manifest.graph.pairs
        self.run.sever(*pairs[at % len(pairs)])

    @rule()
    def mend(self) -> None:
        self.run.network._cut.clear()

    @invariant()
    def mass_is_conserved(self) -> None:
        for present, transit, stale, put in zip(*self.run.totals().values(), strict=True):
            assert present + transit + stale == put

    @invariant()
    def both_ends_of_a_link_have_clipped_alike(self) -> None:
        for agent in self.run.running.values():
            for link in agent.links.values():
                if self.run.in_session(agent, link.peer):
                    back = self.run.running[link.peer].links[agent.label]
                    if link.in_round == back.in_round:
                        assert link.excess == tuple(-one for one in back.excess)

    @invariant()
    def nothing_is_released_again(self) -> None:
        for agent in self.run.running.values():
            assert len(agent.identity.history) == 1
            assert agent.mass.readings <= 1

    def teardown(self) -> None:
        for label, host in self.run.agents.items():
            if host.agent is None and not host.killed:
                self.run.restart(label)
        self.run.run(4000)
        stated: dict[str, Any] = {}
        for label, host in self.run.agents.items():
            if host.killed:
                continue
            done = host.done
            if done is None:  # it waits, for those that are gone or for a broken link
                assert self.run.network._cut or any(h.killed for h in self.run.agents.values())
            elif done.estimate:
                members = done.coverage.contributing
                assert label in members
                assert len(members) >= self.quorum
                mean = sum(int(k) ** 2 for k in members) / len(members)
                assert abs(done.estimate[0] - mean) <= 1e-9, (label, done)
                stated[label] = set(members)
            else:
                assert done.reason in ("quorum", "excluded", "late"), done
        for one, members in stated.items():
            for other in members & set(stated):
                assert stated[other] == members, (one, other, stated)


class Trusting(Agent):
    """A variant that takes a neighbour which lost its state for the one that it was."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.gathering.rolled_back = lambda _: None  # type: ignore[method-assign,assignment]
