"""The links of an agent of a masked sum: the same terms, and the same records at both ends.

A Hello says under which manifest and in which run a neighbour speaks, what it has sent so far, and what
it remembers of the receiver (`remembered`). A neighbour with another manifest is reported, with the
first field that differs, and served nothing. One Hello that is wrong must not close a good link: that a
neighbour has another start or run, or has sent more than is remembered, counts when it is said twice
(`protocol.succession`). So an agent announces a value by two Hellos, before the value itself.

New records go to every other neighbour at once; those that come within `Options.tick` of the last push
go together, so a link carries few messages, of many records. What was lost is found by comparison:

    A -> B   digests of its buckets
    B -> A   names in those that differ, none if none does; with an echo of A's digests
    A -> B   the records that B lacks, and its own names where it lacks some itself
    B -> A   those

Every step is idempotent, and bounded in work and size. The end that has compared records, and what the
neighbour remembers of it, knows everything that the neighbour does (`confirmed`).

Between agents of one process there are no messages: they read what is pushed (`local`).

Neighbours verify before they pass on, so a bad signature convicts the one that sent it. From then on at
most `VERIFIED_PER_TICK` of its records are verified between two ticks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from veilsum.agents.events import Action, AgentReport, Remember, Send, SetTimer
from veilsum.agents.manifest import Manifest
from veilsum.agents.masked.flooding import RecordSet
from veilsum.agents.masked.local import LocalRecords
from veilsum.agents.masked.queries import KEPT, Queries
from veilsum.agents.masked.records import SignedRecord
from veilsum.agents.masked.remembered import Contradiction, OwnStatus, doubt, follow
from veilsum.agents.messages import Hello, PeerStatus, RecordExchange
from veilsum.agents.protocol.succession import Change, SaidOnce, Speaker, Succession
from veilsum.agents.wire import BUCKETS, MOST_BYTES, NAME, WireError

MOST_CHUNK = MOST_BYTES - 1024  # bytes of records in a message, beside its head
LAST_BUCKET = BUCKETS - 1  # an answer with names ends with it
MOST_CHUNKS = 16  # messages with records that one message is answered by
VERIFIED_PER_TICK = 16  # records of a neighbour that sent a bad signature


class LinkState(Enum):
    """What both ends of a link have agreed on."""

    OPENING = "opening"
    OPEN = "open"
    MISMATCHED = "mismatched"


class RecordLink:
    """One neighbour.

    Parameters
    ----------
    peer : str
        Its label.

    Attributes
    ----------
    state : LinkState
        Whether it follows the same manifest.
    up : bool
        Whether the transport reaches it.
    known : PeerStatus
        What is remembered of it, from before this start too.
    heard : bool
        Whether it has said Hello under the same manifest since this start.
    greeted : bool
        Whether it is known to have heard of this agent's present run.
    compared : int
        Its incarnation when it said, in answer to the present run, what it remembers of this agent;
        0 before.
    repeated : int
        How many of this agent's releases it has repeated.
    confirmed : bool
        Whether it has said what it remembers, and all that it had of the present query is here.
    concluded, done, heard_done : int, bool, bool
        As in its last message.
    bad : int
        Records with a bad signature, or not decodable, that it sent.
    local : bool
        Whether it is an agent of the same process: there are no messages to and from it.
    """

    def __init__(self, peer: str) -> None:
        """Nothing is known of it."""
        self.peer, self.local = peer, False
        self.state, self.up = LinkState.OPENING, True
        self.foreign_manifest, self.differs = b"", ""
        self.known = PeerStatus()
        self.compared = self.repeated = 0
        self.heard = self.greeted = self.confirmed = self.warned = False
        self.concluded, self.done, self.heard_done = 0, False, False
        self.finals = self.ticks = self.turns = 0  # messages that said "done"; ticks; comparisons
        self.bad, self.allowance = 0, VERIFIED_PER_TICK
        self.conflict = b""
        self.succession = Succession()  # whom it takes two Hellos to follow
        self.announced = SaidOnce()  # releases beyond those known
        self.unproved = SaidOnce()  # what it claimed to remember, without a proof
        self.named: bytes | None = None  # the run of it that was greeted since the last tick
        self.reset()

    def reset(self) -> None:
        """A new run of the neighbour: what it has is unknown."""
        self.level: dict[int, bytes] = {}  # by query, the digests that both ends had
        self.covered: dict[int, bytes] = {}  # those here when this end had all of the other's
        self.asked = False  # whether its names are awaited
        self.asked_at: tuple[int, bytes] = 0, b""  # query and digests that were sent
        self.answered: tuple[int, bytes] = 0, b""  # the last of them that was answered
        self.pending: set[bytes] = set()  # names of records that it has and this agent lacks
        self.concluded, self.done, self.heard_done = 0, False, False
        self.finals = 0
        self.accepted = False  # whether records came under its run

    def renew(self) -> None:
        """A tick: warn again, verify again."""
        self.ticks += 1
        self.warned, self.allowance, self.asked = False, VERIFIED_PER_TICK, False
        self.named = None
        for known in (self.level, self.covered):
            for query in sorted(known)[: -2 * KEPT]:
                del known[query]

    def holds(self, query: int) -> bool:
        """Whether it follows a query, as far as it has said."""
        return self.concluded - KEPT < query <= self.concluded + 2

    @property
    def run(self) -> bytes:
        """Which run of it is accepted."""
        return self.known.run

    @property
    def open(self) -> bool:
        """Whether records may be exchanged."""
        return self.up and self.state is LinkState.OPEN

    @property
    def status(self) -> str:
        """In a word, for a report."""
        if self.state is LinkState.OPEN:
            if self.done:
                return "done"
            return "open" if self.up else "down"
        return self.state.value if self.up else "down"


class Outgoing(NamedTuple):
    """A record to push: its query, and the neighbours that have shown it."""

    query: int
    signed: SignedRecord
    shown_by: set[str]


class RecordLinks:
    """All links of one agent.

    Parameters
    ----------
    manifest : Manifest
        The terms, and who the neighbours are.
    label : str
        Which member this is.
    queries : Queries
        What is exchanged.

    Attributes
    ----------
    links : dict of RecordLink
        By the neighbour's label.
    remote : list of RecordLink
        Those to other processes.
    actions : list of Action
        Of the present event.
    own : OwnStatus
        Of this agent's ledger.
    met : bool
        Whether a neighbour has known its present run.
    incarnation : int
        This agent's.
    """

    def __init__(self, manifest: Manifest, label: str, queries: Queries) -> None:
        """No neighbour is known yet."""
        self._manifest, self._label, self._queries = manifest, label, queries
        self.links = {peer: RecordLink(peer) for peer in sorted(manifest.link_weights(label))}
        self.remote = list(self.links.values())
        self.actions: list[Action] = []
        self.own, self.incarnation, self.met = OwnStatus(label), 0, False
        self._common: LocalRecords | None = None
        self._outgoing: dict[bytes, Outgoing] = {}  # by name

    def connect_locally(self, common: LocalRecords) -> None:
        """Have the neighbours of this process read what is pushed, in place of messages to them.

        They agree on the manifest, and start anew when this agent does: they remember nothing that
        it does not.
        """
        self._common = common
        for link in self.links.values():
            if link.peer in common.concluded:
                link.local = link.greeted = link.confirmed = True
                link.state = LinkState.OPEN
        self.remote = [link for link in self.links.values() if not link.local]

    def look_around(self) -> list[RecordLink]:
        """The neighbours in this process, each with how far it is."""
        if self._common is None:
            return []
        near = [link for link in self.links.values() if link.local]
        for link in near:
            link.concluded = self._common.concluded[link.peer]
            link.done = link.peer in self._common.done
        return near

    def count_confirmed(self) -> int:
        """How many neighbours have said what they remember."""
        return sum(link.confirmed for link in self.links.values())

    def report(self, kind: str, peer: str, text: str, estimate: tuple[float, ...] = ()) -> None:
        """Add a line for the log."""
        self.actions.append(AgentReport(kind, self._queries.concluded, peer, text, estimate))

    def set_timer(self, timer: str, seconds: float) -> None:
        """Ask for a `Deadline` after so many seconds."""
        self.actions.append(SetTimer(timer, seconds))

    def greet(self, link: RecordLink, asks: bool = False) -> None:
        """Say who this agent is, under which manifest, and what it remembers of the neighbour."""
        own, link.named = self._manifest, link.run
        self.actions.append(Send(Hello(
            self._label, link.peer, self.incarnation, link.compared, own.epoch, own.digest,
            own.field_digests, own=self.own.status, known=link.known, asks=asks,
        )))  # fmt: skip

    def introduce(self, link: RecordLink) -> None:
        """Say who this agent is, as often as it takes a neighbour that may remember an earlier run."""
        self.greet(link)
        if link.run and not link.greeted:
            self.greet(link)

    def say_sent(self) -> None:
        """Say to all neighbours that a value was sent; before the value, and until they repeat it."""
        for link in self.remote:
            if link.open:
                self._announce(link)

    def _announce(self, link: RecordLink) -> None:
        """Say what was sent as often as it takes to be remembered, and ask whether it is."""
        self.greet(link)
        self.greet(link, asks=True)

    def receive_hello(self, link: RecordLink, hello: Hello) -> Contradiction | None:
        """Open the link, or report why not; what it returns ends the agent."""
        found = self.own.judge(hello.known, self.met)
        if found is not None:
            if found.proved and not found.believed:
                return found
            if found.believed:  # one message that is wrong must not end an agent
                if link.unproved.repeated(hello.known):
                    return found
                self.greet(link, asks=True)
            self.report("rejected", link.peer, f"{found.text}, which it does not prove")
        elif hello.manifest != self._manifest.digest:
            self._mismatch(link, hello)
        else:
            self._consider(link, hello)
        return None

    def _consider(self, link: RecordLink, hello: Hello) -> None:
        """Follow a Hello under the same manifest, refuse it, or ask for it once more."""
        known, own, said = link.known, hello.own, Speaker(0, *hello.own[:3])
        change = link.succession.change(Speaker(0, *known[:3]), said, link.accepted)
        if change is Change.CORRECTION:
            known = known._replace(start=0, run=b"", start_proof=b"")
        if why := doubt(known, own):
            self._refuse(link, own.run, why)
        elif link.succession.follows(change, said):
            self._welcome(link, hello)
        else:
            self.greet(link, asks=True)

    def _welcome(self, link: RecordLink, hello: Hello) -> None:
        own, named, compared = hello.own, hello.known.run == self.own.status.run, link.compared
        if own.run != link.run:
            link.reset()
            link.state, link.compared = LinkState.OPENING, 0
        more = hello.peer_incarnation == self.incarnation and own.releases > link.known.releases
        certain = more and link.announced.repeated(own[3:])
        self._remember(link, follow(link.known, own, certain))
        link.heard, link.greeted = True, link.greeted or named
        if named:
            self.met = True
            link.compared, link.repeated = hello.incarnation, hello.known.releases
        news = link.compared and not compared and self.own.status.releases > link.repeated
        if news:
            self._announce(link)
        elif hello.asks or not (named or link.named == link.run):
            self.greet(link)
        if link.state is not LinkState.OPEN:
            link.state, link.foreign_manifest, link.differs = LinkState.OPEN, b"", ""
            self.ask(link)
        self._check_confirmed(link, self._queries.current)

    def _remember(self, link: RecordLink, known: PeerStatus) -> None:
        """Store what is known of a neighbour before it is repeated."""
        if known != link.known:
            link.known = known
            self.actions.append(Remember(link.peer, known))

    def _refuse(self, link: RecordLink, run: bytes, why: str) -> None:
        """Report a Hello of another copy of a ledger, once for each, and answer it once a tick."""
        if link.conflict != run:
            link.conflict = run
            self.report("conflicting-releases", link.peer, f"refused: {why}")
        if not link.warned:
            link.warned = True
            self.greet(link)

    def _mismatch(self, link: RecordLink, hello: Hello) -> None:
        """Another manifest: report the first difference, once for each."""
        link.state = LinkState.MISMATCHED
        if link.foreign_manifest == hello.manifest:
            return
        link.foreign_manifest = hello.manifest
        link.differs = self._manifest.first_difference(hello.fields)
        own, other = self._manifest.digest.hex(), hello.manifest.hex()
        text = (
            f"its manifest is {other}, the one here is {own}; they differ first in {link.differs}"
        )
        self.report("mismatch", link.peer, text)
        self.greet(link, asks=True)

    def admits(self, link: RecordLink, message: RecordExchange) -> bool:
        """Whether a message is of a neighbour that agreed, in the run that said Hello."""
        if link.state is LinkState.OPEN and message.run == link.run:
            link.greeted = link.accepted = True
            link.concluded = max(link.concluded, message.concluded)
            if message.done and not link.done:
                link.done = True
                for query in self._queries.unsettled:  # it may have found more before it ended
                    link.level.pop(query, None)
                    link.covered.pop(query, None)
            link.heard_done = link.heard_done or message.heard_done
            return True
        if not link.warned:
            link.warned = True
            if link.state is LinkState.MISMATCHED:
                self.report("rejected", link.peer, "it follows another manifest")
            self.greet(link, asks=True)
        return False

    def unknown(self, link: RecordLink, records: RecordSet, chunk: bytes) -> list[SignedRecord]:
        """The records of a chunk that are new and verified; the work for bad ones is bounded."""
        try:
            found = records.pool.split(chunk)
        except WireError as error:
            self._convict(link, f"a chunk of records: {error.reason}")
            return []
        fresh = []
        for one in found:
            known = records.knows(one)
            if known or not records.expects(one):
                name = records.pool.name(one)
                link.pending.discard(name)
                if known and name in self._outgoing:
                    self._outgoing[name].shown_by.add(link.peer)
                continue
            if link.bad:
                if not link.allowance:
                    break
                link.allowance -= 1
            if not records.verify(one):
                self._convict(link, f"a {one.place[1]} of {one.record.label} with a bad signature")
                continue
            link.pending.discard(records.pool.name(one))
            fresh.append(one)
        return fresh

    def _convict(self, link: RecordLink, text: str) -> None:
        """Count it; report the first one, and then at most one between two ticks."""
        link.bad += 1
        if link.bad == 1 or not link.warned:
            link.warned = True
            self.report("rejected", link.peer, f"{text}; it forwards what it did not verify")

    def answer(self, link: RecordLink, message: RecordExchange) -> None:
        """Answer digests with names, and names with records; after the records were taken."""
        query = message.query
        records = self._queries.records(query)
        if records is None:
            if message.digests:
                self._send(link, query)
        elif message.digests:
            self._compare(link, query, records, message.digests)
        elif message.names:
            theirs = {bucket: _split(names) for bucket, names in message.names}
            self._exchange(link, query, records, theirs, _answers(link, message))
        elif _answers(link, message):
            link.asked, link.answered = False, link.asked_at
            if link.holds(query):
                link.level[query] = link.asked_at[1]
        if records is not None and link.answered == (query, records.digests()) and not link.pending:
            link.covered[query] = link.answered[1]
        self._check_confirmed(link, query)

    def _compare(self, link: RecordLink, query: int, records: RecordSet, digests: bytes) -> None:
        found = records.names(digests)
        if found:
            found.setdefault(LAST_BUCKET, records.names_in(LAST_BUCKET))  # the end of the answer
            for part in _packed(found):
                self._send(link, query, names=part, echo=_echo(digests))
        else:
            link.level[query] = digests
            self._send(link, query, echo=_echo(digests))

    def _exchange(
        self,
        link: RecordLink,
        query: int,
        records: RecordSet,
        theirs: Mapping[int, frozenset[bytes]],
        answers: bool,
    ) -> None:
        """Send what the neighbour lacks; if this agent has asked, ask for what it lacks itself."""
        wanted = {}
        if link.asked and link.asked_at[0] == query:
            for bucket, names in theirs.items():
                here = records.names_in(bucket)
                if names - here:
                    wanted[bucket] = here
                    link.pending |= names - here
            if LAST_BUCKET in theirs and answers:
                link.asked, link.answered = False, link.asked_at
        self._send_records(link, query, records.lacking(theirs))
        for part in _packed(wanted):
            self._send(link, query, names=part)

    def _check_confirmed(self, link: RecordLink, query: int) -> None:
        """Whether everything that the neighbour has of the present query is here now."""
        if link.confirmed or query != self._queries.current or not link.holds(query):
            return
        if not link.compared:
            return
        compared = link.answered[0] == query and not link.pending
        link.confirmed = compared or self.is_level(link, query)

    def compare(self, link: RecordLink) -> bool:
        """Ask about the first query of which both ends may differ; False if there is none.

        Every other time that is the present one, and in between those take turns that may still get
        a result, or an earlier one: a neighbour may never be level with the present one.
        """
        current = self._queries.current
        differ = [
            query
            for query in self._queries.unsettled
            if query != current and link.holds(query) and not self.is_level(link, query)
        ]
        link.turns += 1
        if not self.is_level(link, current) and (link.turns % 2 or not differ):
            self.ask(link, current)
        elif differ:
            self.ask(link, differ[link.turns // 2 % len(differ)])
        else:
            return False
        return True

    def ask(self, link: RecordLink, query: int = 0) -> None:
        """Compare the records of a query; for one that is gone, of one that the neighbour has."""
        query = query or self._queries.current
        if link.concluded - KEPT >= query:
            self._queries.watch(link.peer, link.concluded - link.ticks % KEPT)
            query = self._queries.watched(link.peer) or query
        records = self._queries.records(query)
        assert records is not None, "the present query is followed"
        link.asked, link.asked_at = True, (query, records.digests())
        link.pending.clear()
        link.answered = 0, b""
        self._send(link, query, digests=records.digests())

    def is_level(self, link: RecordLink, query: int) -> bool:
        """Whether both ends have the same records of a query, as far as is known."""
        records = self._queries.records(query)
        if link.local:
            return records is not None  # of what it has, nothing is withheld
        return records is not None and link.level.get(query) == records.digests()

    def covers(self, link: RecordLink, query: int) -> bool:
        """Whether all that a neighbour has of a query is here, but for what is not followed here."""
        records = self._queries.records(query)
        covered = records is not None and link.covered.get(query) == records.digests()
        return covered or self.is_level(link, query)

    @property
    def ended(self) -> bool:
        """Whether this agent is done, and no neighbour has what a concluded query lacks here."""
        return bool(self._queries.reason) and all(
            self.covers(link, query)
            for query in self._queries.unsettled
            for link in self.remote
            if link.open and link.holds(query)
        )

    def push(self, query: int, signed: Sequence[SignedRecord], source: str = "") -> None:
        """Have new records sent to all neighbours but the one that they came from."""
        if self._common is not None:
            self._common.add(query, signed)
        self.push_remotely(query, signed, source)

    def push_remotely(self, query: int, signed: Sequence[SignedRecord], source: str = "") -> None:
        """The same for neighbours in other processes alone."""
        if self.remote:
            for one in signed:
                self._outgoing[self._queries.pool.name(one)] = Outgoing(query, one, {source})

    def flush(self) -> bool:
        """Send each neighbour what it has not shown; whether there was anything to send."""
        outgoing, self._outgoing = list(self._outgoing.values()), {}
        made: dict[tuple[int, ...], list[bytes]] = {}  # most neighbours get the same
        for query in sorted({one.query for one in outgoing}):
            for link in self.remote:
                if not link.open or not link.holds(query):
                    continue
                wanted = tuple(
                    k
                    for k, one in enumerate(outgoing)
                    if one.query == query and link.peer not in one.shown_by
                )
                if wanted not in made:
                    made[wanted] = list(
                        self._queries.pool.chunks((outgoing[k].signed for k in wanted), MOST_CHUNK)
                    )
                for part in made[wanted]:
                    self._send(link, query, chunk=part)
        return bool(outgoing)

    def say_done(self, link: RecordLink) -> None:
        """Say, with nothing else, how far this agent is."""
        self._send(link, self._queries.current)

    def _send_records(self, link: RecordLink, query: int, records: list[SignedRecord]) -> None:
        for count, part in enumerate(self._queries.pool.chunks(records, MOST_CHUNK)):
            if count == MOST_CHUNKS:
                break  # the rest at the next comparison
            self._send(link, query, chunk=part)

    def _send(
        self,
        link: RecordLink,
        query: int,
        *,
        digests: bytes = b"",
        names: tuple[tuple[int, bytes], ...] = (),
        chunk: bytes = b"",
        echo: bytes = b"",
    ) -> None:
        queries = self._queries
        ended = self.ended
        link.finals += ended
        self.actions.append(Send(RecordExchange(
            self._label, link.peer, self.own.status.run, query, queries.concluded, ended, link.done,
            digests, names, chunk, echo,
        )))  # fmt: skip


def _echo(digests: bytes) -> bytes:
    return hashlib.sha256(digests).digest()[:NAME]


def _answers(link: RecordLink, message: RecordExchange) -> bool:
    """Whether a message is the answer to the last question, and not to an earlier one."""
    query, digests = link.asked_at
    return bool(message.echo) and message.query == query and message.echo == _echo(digests)


def _split(names: bytes) -> frozenset[bytes]:
    return frozenset(names[k : k + NAME] for k in range(0, len(names), NAME))


def _packed(names: Mapping[int, frozenset[bytes]]) -> Iterable[tuple[tuple[int, bytes], ...]]:
    """Names by bucket, as many buckets in a message as fit."""
    part: list[tuple[int, bytes]] = []
    size = 0
    for bucket, found in sorted(names.items()):
        joined = b"".join(sorted(found)[: (MOST_CHUNK - 3) // NAME])
        if part and size + len(joined) + 3 > MOST_CHUNK:
            yield tuple(part)
            part, size = [], 0
        part.append((bucket, joined))
        size += len(joined) + 3
    if part:
        yield tuple(part)
