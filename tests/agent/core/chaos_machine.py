"""A state machine that does to a small network whatever can be done, and weakened twins of cores.

Messages lie in a bag from which they are taken in any order, any number of times or never; agents
crash between any two of their actions and return with their state or in a new life.
"""

from core_cases import released, small
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from murmura.agent.core import Core, Options
from murmura.agent.core.rehearsal import Rehearsal
from murmura.agent.core.rounds import Rounds
from murmura.agent.events import Deadline, PeerDown, PeerUp, Persist, Received, Send
from murmura.agent.messages import Totals
from murmura.agent.transport.memory import Faults

COUNT = st.integers(0, 2**16)


class Bag(Rehearsal):
    """A rehearsal whose messages wait in a bag, and whose agents have a fuse."""

    def __init__(self, manifest, **options):
        super().__init__(manifest, **options)
        self.bag, self.said, self.fuse, self.healed = [], set(), None, False

    def perform(self, player, action):
        if self.fuse is not None:
            if self.fuse == 0:
                self.fuse = None
                self.crash(player.label)
                return
            self.fuse -= 1
        if isinstance(action, Send) and not self.healed:
            self.bag.append(action.message)
            self._note(action.message)
        else:
            if isinstance(action, Send):
                self._note(action.message)
            super().perform(player, action)

    def _note(self, message):
        if isinstance(message, Totals):
            self.said.add(message[:5] + message[6:8])

    def drain(self):
        while self._inbox:
            self.step()

    def heal(self, rounds):
        """Everybody returns, what is in the bag arrives, and the network works again."""
        self.healed, self.fuse = True, None
        self.network.faults = Faults(delay=(0.01, 0.02))
        for label, player in self.players.items():
            if player.core is None:
                self.restart(label)
        for message in self.bag:
            self.feed(message.receiver, Received(message))
        for core in self.cores.values():
            for link in core.links:
                if link.down:
                    self.feed(core.label, PeerUp(link.peer))
        goal = 0
        for _ in range(20_000):
            cores = self.cores.values()
            assert not any(core.reason for core in cores), "an agent has stopped"
            if not goal and all(k.open and not k.silent for core in cores for k in core.links):
                goal = rounds + max(core.round for core in cores)  # from here on all take part
            if goal and min(core.round for core in cores) >= goal:
                return
            self.step()
        raise AssertionError("the agents do not go on")


class SavedTooLate(Bag):
    """A twin that sends first and persists afterwards; its fuse burns down to just between."""

    def perform(self, player, action):
        fuse, self.fuse = self.fuse, 0 if self.fuse and isinstance(action, Persist) else None
        super().perform(player, action)
        if not isinstance(action, Persist):
            self.fuse = fuse

    def feed(self, label, event):
        core = self.players[label].core
        if core is not None:
            actions = core.handle(event)
            for action in sorted(actions, key=lambda a: isinstance(a, Persist)):
                if self.players[label].core is not None:
                    self.perform(self.players[label], action)


class Increments(Rounds):
    """A twin that says what is new instead of all there ever was."""

    def tell(self, link):
        super().tell(link)
        message = self._out[-1].message
        last = getattr(self, "last", {}).get(link.peer, ((0,), 0))
        self.last = {**getattr(self, "last", {}), link.peer: (message.sums, message.weight)}
        gained = tuple(a - b for a, b in zip(message.sums, last[0], strict=True))
        said = message._replace(sums=gained, weight=message.weight - last[1])
        self._out[-1] = Send(said)

    def absorb(self, link, message):
        whole = tuple(a + b for a, b in zip(message.sums, link.in_sums, strict=True))
        super().absorb(link, message._replace(sums=whole, weight=message.weight + link.in_weight))

    def _received(self, event):
        self.limits = self.limits.__class__(2**400, 2**400, 0)
        super()._received(event)


class Lifeless(Rounds):
    """A twin that takes a neighbour's new life for the old one."""

    def undo(self, link, peer_life, token=b""):
        link.peer_life, link.in_token = peer_life, token


class Chaos(RuleBasedStateMachine):
    """Everything that may happen to four agents in a ring."""

    core, bag, asynchronous = Core, Bag, False

    def __init__(self):
        super().__init__()
        self.manifest = small(asynchronous=self.asynchronous)
        self.run = self.bag(self.manifest, core=self.core, options=Options(patience=4))
        self.labels = list(self.run.players)
        self.given = 0
        for k, label in enumerate(self.labels[:3]):
            self.run.release(label, [released(self.manifest, 1, float(k * k))])
            self.given += k * k
        self.count = 3
        self.run.start()
        self.run.drain()
        self.flush(2)

    def flush(self, times):
        for _ in range(times):
            bag, self.run.bag = self.run.bag, []
            for message in bag:
                self.run.feed(message.receiver, Received(message))

    def running(self, at):
        labels = list(self.run.cores)
        return labels[at % len(labels)]

    @rule(at=COUNT, keep=st.booleans())
    @precondition(lambda self: self.run.bag)
    def deliver(self, at, keep):
        at %= len(self.run.bag)
        message = self.run.bag[at] if keep else self.run.bag.pop(at)
        self.run.feed(message.receiver, Received(message))

    @rule(times=st.integers(1, 4))
    def deliver_all(self, times):
        self.flush(times)

    @rule(at=COUNT)
    @precondition(lambda self: self.run.bag)
    def lose(self, at):
        del self.run.bag[at % len(self.run.bag)]

    @rule(at=COUNT, name=st.sampled_from(["round", "resend", "tick"]))
    @precondition(lambda self: self.run.cores)
    def time_passes(self, at, name):
        self.run.feed(self.running(at), Deadline(name))

    @rule(at=COUNT, peer=COUNT, up=st.booleans())
    @precondition(lambda self: self.run.cores)
    def one_side_sees(self, at, peer, up):
        core = self.run.cores[self.running(at)]
        other = core.links[peer % len(core.links)].peer
        self.run.feed(core.label, PeerUp(other) if up else PeerDown(other))

    @rule(one=st.sets(st.integers(0, 3), max_size=3))
    def part_loses_all(self, one):
        group = {self.labels[k] for k in one}
        across = [(m.sender in group) != (m.receiver in group) for m in self.run.bag]
        self.run.bag = [m for m, lost in zip(self.run.bag, across, strict=True) if not lost]

    @rule(fuse=st.integers(0, 6))
    def crash_soon(self, fuse):
        self.run.fuse = fuse

    @rule(at=COUNT)
    @precondition(lambda self: self.run.cores)
    def crash(self, at):
        self.run.crash(self.running(at))
        self.run.drain()

    @rule(at=COUNT, anew=st.booleans())
    @precondition(lambda self: len(self.run.cores) < len(self.run.players))
    def come_back(self, at, anew):
        gone = [label for label in self.labels if label not in self.run.cores]
        label = gone[at % len(gone)]
        (self.run.start if anew else self.run.restart)(label)
        self.run.drain()

    @rule(at=COUNT, value=st.integers(-100, 100))
    def release(self, at, value):
        label = self.labels[at % len(self.labels)] if self.asynchronous else self.labels[3]
        reading = len(self.run.players[label].released) + 1
        if reading > 1 and not self.asynchronous:
            return  # an average has one reading of each
        self.run.release(label, [released(self.manifest, reading, float(value))])
        self.given += value
        self.count += 1

    @invariant()
    def nothing_is_lost_or_made(self):
        totals = self.run.totals()
        for held, coming, undone, put in zip(*totals.values(), strict=True):
            assert held + coming + undone == put
        for core in self.run.cores.values():
            held = list(core.sums), core.weight
            core.recount()
            assert (core.sums, core.weight) == held

    @invariant()
    def every_total_taken_in_was_said_and_is_remembered(self):
        for core in self.run.cores.values():
            for link in core.links:
                if link.in_round and self.run.in_session(core, link.peer):
                    there = self.run.cores[link.peer]
                    key = (link.peer, core.label, there.life, core.life, link.in_round)
                    assert (*key, link.in_sums, link.in_weight) in self.run.said
                    assert there.by_peer[core.label].out_weight >= link.in_weight
                    assert there.round >= link.in_round

    @invariant()
    def honest_agents_are_not_rejected(self):
        told = {report.text.split(":")[-1] for _, report in self.run.reports}
        assert not [text for text in told if "total" in text and "life" not in text]

    def teardown(self):
        self.run.heal(160)
        mean = self.given / self.count
        for label, (estimate,) in self.run.estimates().items():
            assert abs(estimate - mean) <= 1e-9, label
