"""An agent of a masked sum, without input and output: events in, actions out.

    MaskedAgent -- Queries        which query's turn it is, results, estimate
                   -- Session     one query in which this agent takes part (R1 to R6)
                   -- Observer    one query that it follows
                -- RecordLinks    neighbours, and the records that both ends have
                -- LocalReader    records of the agents of this process

The ledger is written within a session, before what relies on it is sent; the state to persist is only
the records of the last sum (`archive`), for members that come when all have restarted. A session begins
when its contribution is there and enough neighbours have said what they remember; an own record, start
or sent value that the ledger does not know ends the agent before it sends anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from veilsum.agents import events as ev
from veilsum.agents.coverage import Coverage, Departure
from veilsum.agents.manifest import Manifest
from veilsum.agents.masked.actions import (
    STOPPED,
    Concluded,
    Misconduct,
    Publish,
    Reinstated,
    SessionAction,
    SessionTimes,
)
from veilsum.agents.masked.archive import from_archive, to_archive
from veilsum.agents.masked.entries import SessionLedger, Stage, StoredSum
from veilsum.agents.masked.flooding import Admission
from veilsum.agents.masked.links import RecordLink, RecordLinks
from veilsum.agents.masked.local import LocalReader, LocalRecords
from veilsum.agents.masked.pool import RecordPool
from veilsum.agents.masked.presence import HeardMembers
from veilsum.agents.masked.queries import KEPT, LATE, Queries
from veilsum.agents.masked.records import Masked, SignedRecord, Withdraw, sign
from veilsum.agents.masked.refunds import FALSE_WITHDRAWAL
from veilsum.agents.masked.session import Session
from veilsum.agents.masked.terms import MaskedTerms
from veilsum.agents.messages import Hello, RecordExchange
from veilsum.agents.protocol.options import Options, ResendPause
from veilsum.agents.wire import WireError

RESEND, PUSH = "resend", "push"
LINGERING_PAUSE = 30.0  # seconds between two comparisons once the agent is done, at most
FINALS = 3  # messages that say that the agent is done, to a neighbour that does not confirm it
BUSY_TICKS = 8  # ticks with new records after which records are compared all the same
CONCLUDED_BEFORE = (
    "this run was concluded at an earlier start: what it ended with is shown again, and no reading is "
    "taken; for another sum, all sites need a new nonce in [agents]"
)
MISSED = "missed"  # the others concluded, and nobody has the records any more
RECORDS = {  # what was found among the records
    "rolled-back": "a record signed by this agent that its ledger does not know",
    "cloned": "two different records signed by this agent for one place",
}
REMEDY = {
    "rolled-back": (
        "the ledger was restored from an older copy, or lost; nothing more is sent; use the newest "
        "copy, or go on under a new name, with keys of `veilsum keys request` and a scenario that pins "
        "the new signing key"
    ),
    "cloned": (
        "another process uses its ledger or its signing key; nothing more is sent; stop all but one "
        "and find out which ledger is the newest"
    ),
}


class MaskedAgent:
    """The state machine of one agent.

    Parameters
    ----------
    manifest : Manifest
        The terms that all agents share.
    label : str
        Which member this is.
    terms : MaskedTerms
        Members with their pinned keys, and the numbers of the masked sum.
    signing_key : Ed25519PrivateKey
        The private half of its pinned key.
    ledger : SessionLedger
        What it must not forget; every call is durable when it returns.
    draw : callable
        Gives a fresh noise vector, drawn at a time that nobody sees.
    options : Options, optional
        Its time limits.
    times : SessionTimes, optional
        Those of its sessions; by default what follows from the manifest.
    pool : RecordPool, optional
        Where the agents of this process keep their records; its own by default.
    step : float
        One grid step, in units of the statistic.
    concluded : iterable of StoredSum
        Results that the ledger remembers.
    last_concluded : int
        The last query that the ledger has as concluded, with a result or without.
    last_reason : str
        Why that one ended.
    queries : int, optional
        The last query; 0 is open-ended. `Manifest.queries` by default.

    Raises
    ------
    AgentError
        If the label is no member, or the manifest pins another signing key for it.
    """

    def __init__(
        self,
        manifest: Manifest,
        label: str,
        terms: MaskedTerms,
        signing_key: Ed25519PrivateKey,
        ledger: SessionLedger,
        draw: Callable[[], tuple[int, ...]],
        *,
        options: Options | None = None,
        times: SessionTimes | None = None,
        pool: RecordPool | None = None,
        step: float = 1.0,
        concluded: Iterable[StoredSum] = (),
        last_concluded: int = 0,
        last_reason: str = "attempts",
        queries: int | None = None,
    ) -> None:
        """An agent that has not started yet."""
        self.manifest, self.label, self.terms = manifest, label, terms
        self.options = options or Options()
        self.incarnation = 0
        self._signing_key, self._ledger = signing_key, ledger
        last = manifest.queries if queries is None else queries
        self.queries = Queries(
            terms,
            label,
            signing_key,
            ledger,
            draw,
            times or SessionTimes.of(manifest, self.options),
            step,
            last,
            pool,
        )
        self._remembered, self._last_reason = (tuple(concluded), last_concluded), last_reason
        self.record_links = RecordLinks(manifest, label, self.queries)
        self._reader: LocalReader | None = None
        self._common: LocalRecords | None = None
        self._presence = HeardMembers(terms, label, self.record_links.links)
        self._exhausted = self._halted = self._pushing = False
        self.departure: Departure | None = None  # what became of its part, once it has left
        self._pause = ResendPause(self.options, manifest.lost_after, marker=())
        self._busy, self._idle, self._lingered = 0, 0.0, 0.0
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            ev.Started: self._started,
            ev.Restarted: self._started,
            ev.Contribute: self._contribute,
            ev.SkipReading: self._skip,
            ev.Received: self._received,
            ev.LocalBatch: self._local_batch,
            ev.PeerUp: self._peer_up,
            ev.PeerDown: self._peer_down,
            ev.Deadline: self._deadline,
            ev.NoMoreReadings: self._no_more_readings,
            ev.Leave: self._leave,
        }

    def handle(self, event: ev.Event) -> list[ev.Action]:
        """Take one event and return the actions that follow.

        Parameters
        ----------
        event : Event
            What happened.

        Returns
        -------
        list of Action
            To be carried out in order.
        """
        links = self.record_links
        links.actions = []
        if self._halted:
            return []
        self._handlers[type(event)](event)
        self._advance()
        self._read_locally()
        if self._common is not None:
            self._common.note(self.label, self.round, bool(self.reason))
        if not self._halted:
            self._push()
            if self._pause.grown and self._pause.ends_early(self._progress):
                links.set_timer(RESEND, self._pause.seconds)
        return links.actions

    @property
    def round(self) -> int:
        """How many queries are concluded."""
        return self.queries.concluded

    @property
    def reason(self) -> str:
        """Why it is done; empty while it is not."""
        return self.queries.reason

    @property
    def estimate(self) -> tuple[float, ...]:
        """The mean of all readings in concluded queries, noise included; the same at every agent."""
        return self.queries.estimate

    @property
    def reported_estimate(self) -> tuple[float, ...]:
        """The estimate: it changes with a concluded query only."""
        return self.estimate

    @property
    def coverage(self) -> Coverage:
        """Whose readings are in the estimate; present is who was heard of."""
        self._taking_part()
        found, known = self.queries.coverage, self._presence.known
        present = tuple(one for one in found.members if one in known or one in found.present)
        return replace(found, present=present)

    @property
    def assembled(self) -> bool:
        """Whether n - d members take part, or did in a query before."""
        return self.queries.concluded > 0 or self._enough

    @property
    def _enough(self) -> bool:
        return len(self._taking_part()) >= self.terms.parameters.smallest_roster

    def _taking_part(self) -> Set[str]:
        query = self.queries.current
        return self._presence.taking_part(query, self.queries.records(query))

    @property
    def gathered(self) -> bool:
        """Whether enough neighbours have said what they remember, so that readings may be used."""
        needed = min(self.options.confirmations, len(self.record_links.links))
        return self.incarnation > 0 and self.record_links.count_confirmed() >= needed

    @property
    def confirmed(self) -> bool:
        """Whether all neighbours have said what they remember."""
        return all(link.confirmed for link in self.record_links.links.values())

    @property
    def settled(self) -> bool:
        """Whether it is done and nobody waits for it, or it has waited long enough."""
        if not self.reason:
            return False
        if self._halted or self._lingered >= self.options.linger:
            return True
        return self.record_links.ended and all(
            link.done and (link.heard_done or link.finals >= FINALS or not link.up)
            for link in self.record_links.remote
        )

    def links_status(self) -> dict[str, str]:
        """The state of the link to each neighbour, in a word.

        Returns
        -------
        dict of str to str
            "open", "opening", "done", "mismatched" or "down".
        """
        return {peer: link.status for peer, link in self.record_links.links.items()}

    def connect_locally(self, common: LocalRecords) -> None:
        """Exchange records with the agents of this process by way of their log; before the start."""
        self._common, self._reader = common, LocalReader(common, self.queries)
        self.record_links.connect_locally(common)

    def to_bytes(self) -> bytes:
        """The records of the last sum; all else that a restart needs is in the ledger."""
        for query in sorted(self.queries.sums, reverse=True):
            followed = self.queries.followed(query)
            if followed is not None and followed.result is not None:
                place = followed.result.attempt, followed.result.view
                return to_archive(query, self.terms.sid(query, *place), followed.records)
        return b""

    @property
    def session(self) -> Session | None:
        """The session of the present query, if the agent takes part in it."""
        found = self.queries.followed(self.queries.current)
        return found if isinstance(found, Session) else None

    @property
    def last_sum(self) -> StoredSum | None:
        """The result of the last concluded query, if it has one."""
        return self.queries.sums.get(self.queries.concluded)

    @property
    def records_held(self) -> int:
        """Signed records of all queries that it follows."""
        return self.queries.size

    @property
    def _progress(self) -> tuple[int, ...]:
        links = self.record_links
        opened = sum(link.open for link in links.links.values())
        return self.queries.size, self.queries.concluded, opened, links.count_confirmed()

    def _started(self, event: ev.Started | ev.Restarted) -> None:
        links = self.record_links
        self.incarnation = event.incarnation
        links.incarnation = event.incarnation
        links.own.open(event)
        for peer, known in event.remembered:
            if peer in links.links:
                links.links[peer].known = known
        for query, signed in self.queries.restore(*self._remembered):
            links.push(query, [signed])
        if isinstance(event, ev.Restarted):
            self._restore_records(event.state)
        if self._halted:
            return
        if self.queries.concluded:
            text = f"{self.queries.concluded} queries concluded"
            links.report("resumed", "", text, self.estimate)
        for link in links.remote:
            links.introduce(link)
        links.set_timer(RESEND, self.options.resend)
        if self.queries.finished:
            found = self.queries.sums.get(self.queries.concluded)
            links.report("readings", "", CONCLUDED_BEFORE, self.estimate)
            self._done("sum" if found else self._last_reason)

    def _restore_records(self, state: bytes) -> None:
        """Hold the records of the last sum again, for those who come late."""
        try:
            query, records = from_archive(self.queries.pool, state)
        except WireError as error:
            text = (
                f"the records of the last sum cannot be read ({error.reason}); others may have them"
            )
            self.record_links.report("rejected", "", text)
            return
        followed, size = self.queries.followed(query), -1
        while followed is not None and len(followed.records) > size:  # the window of views may move
            size = len(followed.records)
            self._act(query, followed.receive(records))

    def _contribute(self, event: ev.Contribute) -> None:
        given = event.contribution
        if not self.queries.contribute(given):
            text = f"a contribution to query {given.query}, which is over, is not used"
            self.record_links.report("late", "", text)

    def _skip(self, event: ev.SkipReading) -> None:
        """Without a contribution, a query is observed."""

    def _no_more_readings(self, _: ev.NoMoreReadings) -> None:
        self._exhausted = True

    def _advance(self) -> None:
        """Begin the session whose turn it is; end if there will be none."""
        queries = self.queries
        if self._halted:
            return
        while not queries.reason and queries.current > queries.concluded:
            found = queries.followed(queries.current)
            if found is None or found.reason != "sum":
                break
            self._conclude(queries.current, Concluded(found.result, "sum"))
        if queries.reason:
            return
        if queries.finished or (self._exhausted and not queries.last and not queries.contributes):
            self._done("sum" if queries.sums else "readings")
        elif self.gathered:
            self._act(queries.current, queries.begin())

    def _received(self, event: ev.Received) -> None:
        message, links = event.message, self.record_links
        link = links.links.get(message.sender)
        if link is None or message.receiver != self.label:
            links.report("rejected", message.sender, f"not a link of {self.label}")
        elif link.local:
            text = "a message from elsewhere, and that agent is of this process: its key is in use twice"
            links.report("rejected", link.peer, text)
        elif isinstance(message, Hello):
            found = links.receive_hello(link, message)
            if found is not None:
                self._stop(found.reason, f"{link.peer} contradicts: {found.text}")
        elif not isinstance(message, RecordExchange):
            text = f"a {type(message).__name__}, which no agent of a masked sum sends"
            links.report("rejected", link.peer, text)
        elif self.incarnation and links.admits(link, message):
            records = self.queries.records(message.query)
            if records is not None and message.chunk:
                fresh = links.unknown(link, records, message.chunk)
                links.push(message.query, self._take(message.query, fresh), link.peer)
            if not self._halted:
                links.answer(link, message)
                self._check_over()

    def _local_batch(self, _: ev.LocalBatch) -> None:
        """Agents of this process have something new, or are further than before."""
        self._read_locally()
        if self.record_links.look_around() and not self._halted:
            self._check_over()

    def _read_locally(self) -> None:
        """Take what the agents of this process have; again if more of it is accepted after that."""
        while self._reader is not None and not self._halted:
            unread = self._reader.unread()
            for query, fresh in unread:
                if not self._halted:
                    self._take_locally(query, fresh)
            if not unread:
                return
            self._advance()

    def _take_locally(self, query: int, fresh: list[SignedRecord]) -> None:
        """Take records of the log; neighbours in other processes, if there are any, get the new ones."""
        links, records = self.record_links, self.queries.records(query)
        if not links.remote:
            self._take(query, fresh, passes_on=False)
        elif records is not None:
            fresh = [one for one in fresh if not records.knows(one)]
            links.push_remotely(query, self._take(query, fresh))

    def _take(
        self, query: int, fresh: list[SignedRecord], passes_on: bool = True
    ) -> list[SignedRecord]:
        """Take verified records; those that were added, if they are to be passed on."""
        followed = self.queries.followed(query)
        if not fresh or followed is None:
            return []
        actions = followed.receive(fresh)
        added = [one for one in fresh if followed.records.knows(one)] if passes_on else []
        self._act(query, actions)
        if query == self.queries.current:
            self._idle = 0.0
        return added

    def _act(self, query: int, actions: list[SessionAction]) -> None:
        """Carry out what a session asks for."""
        links = self.record_links
        for action in actions:
            if isinstance(action, Publish):
                record = action.signed.record
                if isinstance(record, Masked) and links.own.add(record.words):
                    links.say_sent()
                links.push(query, [action.signed])
            elif isinstance(action, ev.SetTimer):
                links.set_timer(f"{action.timer}/{query}", action.seconds)
            elif isinstance(action, Misconduct):
                if action.admission is Admission.CONFLICT:
                    what = f"two different {action.kind} records"
                    if action.kind == FALSE_WITHDRAWAL:
                        what = f"{action.kind} for one roster"
                    text = f"{what} of it in one session of query {query}"
                    links.report("contradiction", action.label, text)
            elif isinstance(action, Reinstated):
                links.report("reinstated", "", _reinstated(query, action), self.estimate)
            elif isinstance(action, Concluded):
                self._conclude(query, action)

    def _conclude(self, query: int, concluded: Concluded) -> None:
        reason, queries, links = concluded.reason, self.queries, self.record_links
        if reason in STOPPED:
            self._stop(reason)
            return
        if query > queries.current:  # its turn comes, at the earliest when those before it are over
            if query > queries.current + 1 and reason == "sum":
                self._skip_to(query - KEPT + 1)
            return
        summed = concluded.result.stored(self.terms) if concluded.result else None
        if not queries.conclude(query, summed):
            return
        self._idle = 0.0
        links.actions.append(ev.ConcludeQuery(query, reason, summed))
        if summed is not None:
            links.actions.append(ev.Persist(self))
        text = f"query {query} has no result: {reason} used up"
        if reason == MISSED:
            text = f"query {query} is concluded elsewhere, and nobody has its records any more"
        if summed is not None:
            text = (
                f"query {query}: {sum(summed.readings)} readings of {len(summed.members)} members"
            )
        links.actions.append(ev.AgentReport("round", query, "", text, self.estimate))
        if queries.reason:  # a result that came late, or one of an earlier attempt
            queries.reason = "sum"
            self._say_done(reason)
        elif queries.finished:
            self._done(reason)
        else:
            self._catch_up()

    def _skip_to(self, query: int) -> None:
        """The records before this query are gone: go on with it."""
        if query <= self.queries.current:
            return
        first = self.queries.current
        for skipped in self.queries.skip_to(query):
            self.record_links.actions.append(ev.ConcludeQuery(skipped, LATE, None))
        text = (
            f"nobody has the records of queries {first} to {query - 1} any more; they are left out"
        )
        self.record_links.report("late", "", text)
        self._catch_up()

    def _catch_up(self) -> None:
        """Ask a neighbour that is ahead, at once."""
        ahead = [link for link in self.record_links.remote if link.open]
        link = max(ahead, key=lambda one: one.concluded, default=None)
        if link is not None and link.concluded >= self.queries.current > self.round:
            self.record_links.ask(link)

    def _done(self, reason: str) -> None:
        self.queries.reason = reason
        self._pause.reset()
        self._lingered = 0.0
        self._say_done(reason)
        for link in self.record_links.remote:
            if link.open:
                self.record_links.ask(link)

    def _say_done(self, reason: str) -> None:
        done = ev.Done(self.round, self.estimate, reason, self.coverage)
        self.record_links.actions.append(done)

    def _stop(self, reason: str, why: str = "") -> None:
        """Say no more, loudly; an estimate that is there already stands."""
        links = self.record_links
        links.actions = [a for a in links.actions if not isinstance(a, ev.Send)]
        links.report(reason, "", f"{why or RECORDS[reason]}; {REMEDY[reason]}", self.estimate)
        if not self.queries.reason:
            self.queries.reason = reason
            self._say_done(reason)
        self._halted = True

    def _leave(self, _: ev.Leave) -> None:
        """Withdraw what is prepared, so that nobody waits for it, and end."""
        query = self.queries.current
        entries = self._ledger.entries(query)
        unsent = entries and entries[-1].stage is not Stage.SENT and not self.queries.finished
        lost = (f"its part in query {query}, of which it had sent no value",) if unsent else ()
        self.departure = Departure(lost=lost)
        if not self.queries.finished and entries and entries[-1].stage is Stage.PREPARED:
            last = entries[-1]
            self._ledger.withdraw(query)
            record = Withdraw(last.sid, self.label, last.rho)
            self.record_links.push(query, [sign(record, self.terms.manifest, self._signing_key)])
        self.queries.reason = "left"
        self.record_links.flush()
        for link in self.record_links.remote:
            if link.open:
                self.record_links.say_done(link)
        self._say_done("left")
        self._halted = True

    def _peer_up(self, event: ev.PeerUp) -> None:
        link = self.record_links.links.get(event.peer)
        if link is not None and not link.local:
            down, link.up = not link.up, True
            if self.incarnation and (down or not link.open):
                self.record_links.introduce(link)

    def _peer_down(self, event: ev.PeerDown) -> None:
        link = self.record_links.links.get(event.peer)
        if link is not None and link.up and not link.local:
            link.up = False
            self.record_links.report("peer", link.peer, "cannot be reached")

    def _deadline(self, event: ev.Deadline) -> None:
        if event.timer == PUSH:
            self._pushing = False
        elif event.timer == RESEND:
            self._tick()
        else:
            timer, _, query = event.timer.partition("/")
            followed = self.queries.followed(int(query))
            if followed is not None and not self.reason:
                self._act(int(query), followed.deadline(timer))

    def _push(self) -> None:
        """Push at once what is new, unless there was a push just now: then with what comes until."""
        if not self._pushing and self.record_links.flush():
            self._pushing = True
            self.record_links.set_timer(PUSH, self.options.tick)

    def _tick(self) -> None:
        """Compare records with neighbours; at growing pauses while nothing changes."""
        if self.reason and self._lingered >= self.options.linger:
            return
        passed = self._pause.seconds
        stuck = self._pause.over(self._progress, LINGERING_PAUSE if self.reason else 0.0)
        self._busy = 0 if stuck else self._busy + 1
        compare = stuck or self._busy >= BUSY_TICKS
        if compare:
            self._busy = 0
        self._idle += passed
        self._lingered += passed if self.reason else 0.0
        self._report_missing(passed)
        self._check_over()  # an hour without records is no message
        for link in self.record_links.links.values():
            self._tick_link(link, compare)
        self.record_links.set_timer(RESEND, self._pause.seconds)
        waits = self._exhausted and not (self.reason or self.queries.contributes)
        if waits and self._idle >= self.manifest.lost_after and not self._assists:
            self._done("readings")

    @property
    def _assists(self) -> bool:
        """Whether members that wait for more of them may need this one to pass their records on."""
        near = any(link.open for link in self.record_links.links.values())
        return near and bool(self._taking_part()) and not self._enough

    def _report_missing(self, seconds: float) -> None:
        """Say who the present query waits for."""
        queries = self.queries
        if self.reason or not (queries.contributes or not queries.concluded):
            return
        entries = self._ledger.entries(queries.current)
        last = entries[-1] if entries and self.session is not None else None
        stage = (last.attempt, last.view, last.stage) if last else ()
        if self._presence.is_due(seconds, queries.current, stage):
            self._taking_part()
            kind, text = self._presence.missing(last, queries.times.proposal)
            if text:
                self.record_links.report(kind, "", text)

    def _tick_link(self, link: RecordLink, compare: bool) -> None:
        links = self.record_links
        link.renew()
        if link.local:
            if link.concluded - KEPT >= self.queries.current:
                self.queries.watch(link.peer, link.concluded - link.ticks % KEPT)
            return
        if not link.up:
            return
        known = link.greeted and link.compared and link.repeated == links.own.status.releases
        if not (link.open and known):
            links.greet(link, asks=True)
        if not (link.open and link.greeted):
            return
        if not link.confirmed:
            links.ask(link)
        elif compare and links.compare(link):
            pass
        elif self.reason and not link.heard_done and not self.settled:
            links.say_done(link)

    def _check_over(self) -> None:
        """Give a query up that is over elsewhere, and of which no neighbour has more records."""
        queries, query = self.queries, self.queries.current
        near = [one for one in self.record_links.links.values() if one.open]
        over = [one for one in near if one.concluded >= query]
        if self.reason or query <= queries.concluded or not over:
            return
        followed, entries = queries.followed(query), self._ledger.entries(query)
        prepared = bool(entries) and entries[-1].stage is not Stage.OPENED  # others may wait for it
        if followed is None or followed.reason or (prepared and isinstance(followed, Session)):
            return
        over = [one for one in over if self.record_links.covers(one, query)]
        enough = len(over) >= min(self.terms.parameters.colluders + 1, len(near)) and not prepared
        patience = min(self.manifest.lost_after, self.options.linger / 2)  # those who linger leave
        if enough or (over and self._idle >= patience):
            followed.reason = MISSED
            self._act(query, [Concluded(None, MISSED)])


def _reinstated(query: int, action: Reinstated) -> str:
    why = (
        f"{', '.join(action.signers)} withdrew and published"
        if action.signers
        else "it can be read"
    )
    return (
        f"the charge of attempt {action.attempt + 1} of query {query} was refunded and is taken again: "
        f"{why}; either more members collude than the terms say, or a ledger was rolled back; find "
        "out which before the next run"
    )
