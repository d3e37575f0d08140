"""Sessions and memory: who a neighbour is, in which incarnation and run, and under which terms.

A link is open when both sides know both incarnations and follow the same manifest; cumulative mass
counts only within that session. A neighbour's new incarnation rolls the old mass back; an old one
is stale. A neighbour that proves, with an authentication tag, an incarnation or round of this agent
that it does not remember shows that its ledger was rolled back. Hellos and cumulative mass both
carry the proof, and after a start no mass is sent over a link before the neighbour's first message:
a rollback is detected before anything new is sent.

A neighbour remembers of each member, for ever: the last start of its ledger (a number that rises
with every opening, and 8 random bytes, the run) and the last head of its releases. It repeats both
in every Hello. A member that starts says Hello and releases nothing until neighbours have answered
in its present run (`cleared`).

The member compares what is remembered with its own ledger:
- a head that its ledger does not lead to: the ledger was lost, restored from an older copy, or a
  copy of it released more;
- a later start, or the same start with another run: another copy of the ledger is in use.
Either ends it, before it releases anything new. A claim needs the member's own proof, so a false
claim ends nobody; only a ledger that has released nothing accepts claims without proof, since its
secret may be as new as it is.

The neighbour accepts messages of one run only, the latest start's: those of an older run, or of a
second one of the same start, are refused and reported, and answered by a Hello that says so.

One message that is wrong, by a fault on the way or of a program, must not close a good link for good,
and whatever is remembered of it would. So what cannot be taken back takes two messages that
agree (`succession`): a Hello of another incarnation, start or run is answered by one that asks, and
followed when it is repeated; so is a claim without proof to a ledger that has released nothing, and a
head that contradicts the one known. A neighbour's very first Hello is followed at once, and given up for
another that is said twice, unless mass came since under its run.
"""

from __future__ import annotations

from collections.abc import Mapping

from veilsum.agents.events import PostRegister, Restarted, Started
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import Attendance, CumulativeMass, Hello, PeerStatus
from veilsum.agents.protocol.completion import Completion
from veilsum.agents.protocol.flooding import Flooding
from veilsum.agents.protocol.gathering import Gathering
from veilsum.agents.protocol.history import AgentIdentity
from veilsum.agents.protocol.link import Link
from veilsum.agents.protocol.mass import Mass
from veilsum.agents.protocol.memory import AgentState
from veilsum.agents.protocol.messenger import Messenger
from veilsum.agents.protocol.options import Options
from veilsum.agents.protocol.states import ReachabilityEvent, SessionEvent, SessionState
from veilsum.agents.protocol.succession import Change, Speaker

CONFLICT = "conflicting-releases"
REMEDY = (
    "nothing was released; if another copy of this ledger runs, stop one of them and start this "
    "one again; if the ledger was lost or restored from an older copy, use the newest copy; if "
    "there is none, what was released cannot be known: go on under a new name (`veilsum keys "
    "request`) and add its budget to that of the old one"
)


class Handshake:
    """Opens sessions and decides which messages belong to one.

    Parameters
    ----------
    manifest, options : Manifest, Options
        The terms.
    state, identity, links, mass, messenger, flooding, completion, gathering
        The parts that it works with; `links` by the neighbour's label.
    """

    def __init__(
        self,
        manifest: Manifest,
        options: Options,
        state: AgentState,
        identity: AgentIdentity,
        links: Mapping[str, Link],
        mass: Mass,
        messenger: Messenger,
        flooding: Flooding,
        completion: Completion,
        gathering: Gathering,
    ) -> None:
        """No neighbour is known yet."""
        self._manifest, self._options, self._state = manifest, options, state
        self._identity, self._links, self._mass = identity, links, mass
        self._messenger, self._completion = messenger, completion
        self._flooding, self._gathering = flooding, gathering

    @property
    def cleared(self) -> bool:
        """Whether enough neighbours have said in this run what they remember of this agent."""
        needed = min(self._options.confirmations, len(self._links))
        return sum(link.confirmed for link in self._links.values()) >= needed

    def begin(self, event: Started | Restarted) -> None:
        """Take over the incarnation, the identity and what is remembered of neighbours."""
        self._state.incarnation = event.incarnation
        self._identity.open(event)
        for peer, known in event.remembered:
            if peer in self._links:
                self._links[peer].known = known

    def greet(self, link: Link) -> None:
        """Send a Hello, and the cumulative mass if the session is open."""
        self._messenger.send_hello(link)
        if link.in_reach:
            self._messenger.send_mass(link)

    def open(self, link: Link) -> None:
        """Both sides know the session."""
        opening = link.session is SessionState.OPENING
        link.on(SessionEvent.AGREED)
        if opening:
            link.awake(self._state.round)
            self._state.unsaved = True
            self._gathering.opened(link)

    def receive_hello(self, link: Link, hello: Hello) -> bool:
        """Take a Hello; whether the agent may now be able to advance."""
        if self.contradicted(link, hello.known):
            return False
        if hello.manifest != self._manifest.digest:
            return self._mismatch(link, hello)
        said = Speaker(hello.incarnation, *hello.own[:3])
        change = link.succession.change(link.speaker, said, accepted=link.newest > 0)
        if change is not Change.CORRECTION and self._refused(link, hello):
            return False
        if not link.succession.follows(change, said):
            self._messenger.send_hello(link, asks=True)
            return False
        if change is Change.CORRECTION:
            self._forget_first(link, hello)
        self._welcome(link, hello)
        return True

    def _refused(self, link: Link, hello: Hello) -> bool:
        """Whether a Hello is refused because of what is known of its sender, or of this agent."""
        state = self._state
        if why := self._doubtful(link, hello):
            self._messenger.reject(link.peer, f"a Hello of {why}")
            self._messenger.warn(link)
        elif hello.incarnation < max(link.peer_incarnation, 1):
            self._messenger.reject(
                link.peer,
                f"a Hello of incarnation {hello.incarnation} after one of {link.peer_incarnation}",
            )
        elif (hello.peer_incarnation, hello.acknowledged) > (state.incarnation, state.round):
            self._dispute(link, hello)
        else:
            return False
        return True

    def _forget_first(self, link: Link, hello: Hello) -> None:
        """Two Hellos agree, and the one before them was wrong."""
        link.known = link.known._replace(start=0, run=b"", start_proof=b"")
        if hello.incarnation != link.peer_incarnation:
            link.peer_incarnation = 0

    def _welcome(self, link: Link, hello: Hello) -> None:
        """Accept a Hello; answer until both sides know both runs."""
        link.foreign_manifest, link.differs = b"", ""
        link.on(SessionEvent.HELLO)
        link.on(ReachabilityEvent.HELLO)
        self._gathering.hear(link)
        another = self._follow_run(link, hello.own)
        named = hello.known.run == self._identity.run
        link.confirmed = link.confirmed or named
        if hello.incarnation > link.peer_incarnation:
            self._mass.roll_back(link, hello.incarnation, hello.tag)
            self._gathering.rolled_back(link)
        known = named and hello.peer_incarnation == self._state.incarnation
        if another or hello.asks or not known:
            self._messenger.send_hello(link)
        if known and link.session is not SessionState.FORKED:
            self.open(link)
            if link.in_reach:
                self._messenger.send_mass(link)
            else:
                self._messenger.warn(link)

    def admits(self, link: Link, message: CumulativeMass) -> bool:
        """Whether cumulative mass belongs to the present session; otherwise it is answered."""
        state = self._state
        if (
            message.peer_incarnation != state.incarnation
            or message.incarnation != link.peer_incarnation
            or link.session is SessionState.MISMATCHED
        ):
            self._other_session(link, message)
        elif message.run != link.known.run or not link.confirmed:
            self._other_run(link, message)
        elif message.view != state.view:
            self._other_view(link)
        elif link.undone:
            self._gathering.begin_generation(link)
        elif self._forked(link, message):
            self._messenger.reject(link.peer, "two histories were received under one run of it")
            self._messenger.warn(link)
        elif message.acknowledged > state.round:
            self._dispute(link, message)
        else:
            return True
        return False

    def _other_session(self, link: Link, message: CumulativeMass) -> None:
        """Cumulative mass of a session that is not the present one."""
        if link.session is SessionState.MISMATCHED:
            self._messenger.reject(link.peer, "it follows another manifest")
            self._messenger.warn(link)
        elif message.incarnation < link.peer_incarnation:
            text = f"mass of incarnation {message.incarnation} after {link.peer_incarnation}"
            self._messenger.reject(link.peer, text)
        elif message.peer_incarnation > self._state.incarnation:
            self._dispute(link, message)
        else:
            self._messenger.send_hello(link)

    def _other_run(self, link: Link, message: CumulativeMass) -> None:
        """Cumulative mass of another run than the one that said Hello, or before it knows this."""
        if link.confirmed:
            why = "an old message, or another copy of its ledger is in use"
            text = f"round {message.round} of another run of it: {why}"
            self._messenger.reject(link.peer, text)
        self._messenger.warn(link)

    def _other_view(self, link: Link) -> None:
        """Cumulative mass of another view: the session is known, and registers decide on the view."""
        if link.session is SessionState.OPENING:
            self.open(link)
        if not link.warned:
            link.warned = True
            self._flooding.answer(link)

    def admits_attendance(self, link: Link, message: Attendance | PostRegister) -> bool:
        """Whether a register comes from the incarnation and run of the neighbour that said Hello."""
        if link.session in (SessionState.MISMATCHED, SessionState.FORKED):
            return False
        known = message.incarnation == link.peer_incarnation and message.run == link.known.run
        if not (known and link.confirmed):
            self._messenger.warn(link)
            return False
        return True

    def _mismatch(self, link: Link, hello: Hello) -> bool:
        """A neighbour follows another manifest: report the first difference, once for each."""
        if link.foreign_manifest == hello.manifest:
            return False
        link.foreign_manifest = hello.manifest
        link.on(SessionEvent.MISMATCH)
        differs = link.differs = self._manifest.first_difference(hello.fields)
        own, other = self._manifest.digest.hex(), hello.manifest.hex()
        text = f"its manifest is {other}, the one here is {own}; they differ first in {differs}"
        self._messenger.report("mismatch", link.peer, text)
        self._messenger.send_hello(link)
        return True

    def contradicted(self, link: Link, known: PeerStatus) -> bool:
        """Whether a neighbour remembers what this ledger does not know of; if proved, the end."""
        why, proved = self._identity.contradiction(known)
        if not why:
            return False
        unproved = not proved and not len(self._identity.history)
        if unproved and known.run and not link.unproved.repeated(known):
            self._messenger.reject(link.peer, f"{why}, which it does not prove; it is asked again")
            self._messenger.send_hello(link, asks=True)
        elif proved or unproved:
            self._messenger.report(CONFLICT, link.peer, f"{why}; {REMEDY}")
            if not self._state.reason:  # an estimate that is there already stands
                self._completion.finish(CONFLICT)
            self._completion.halt()
        else:
            self._messenger.reject(link.peer, f"{why}, which it does not prove")
        return True

    def _doubtful(self, link: Link, hello: Hello) -> str:
        """Why a Hello cannot be of the member that is remembered; empty if it can."""
        known, own = link.known, hello.own
        found = f"start {own.start} with {own.releases} releases"
        if own.start and not own.run:
            return f"{found}, which does not say which run of its ledger that is"
        if own.start < known.start:
            return (
                f"{found} after start {known.start} with {known.releases}: an old message, or its "
                "ledger was lost, copied or restored from an older copy"
            )
        if own.start == known.start and own.run != known.run and known.run:
            return self._conflict(link, own.run, f"two copies of its ledger speak as {found}")
        if own.run != known.run and own.releases < known.releases:
            text = (
                f"{found} and {known.releases} are remembered: its ledger was copied or restored "
                "from an older copy"
            )
            return self._conflict(link, own.run, text)
        if own.releases == known.releases and own.head != known.head:
            return self._conflict(link, own.run, f"{found} that are not those remembered")
        return ""

    def _conflict(self, link: Link, run: bytes, text: str) -> str:
        """Report a conflict, once for each run that causes one."""
        if link.conflict != run or not link.conflict:
            link.conflict = run or b"none"
            text_and_remedy = f"{text}; refused: its operator must find out which is right"
            self._messenger.report(CONFLICT, link.peer, text_and_remedy)
        return text

    def _follow_run(self, link: Link, own: PeerStatus) -> bool:
        """Take a member's present run for the accepted one; whether it is another than before.

        What it released is taken over with its first cumulative mass, which it sends after it has
        compared.
        """
        known = link.known
        if own[:3] == known[:3]:
            return False
        link.known = known._replace(start=own.start, run=own.run, start_proof=own.start_proof)
        link.on(SessionEvent.NEW_RUN)
        self._messenger.remember(link)
        return True

    def _forked(self, link: Link, message: CumulativeMass) -> bool:
        """Whether two histories speak as one run; otherwise the last head is remembered."""
        known = link.known
        if message.releases > known.releases:
            link.known = known._replace(
                releases=message.releases, head=message.head, head_proof=message.head_proof
            )
            self._messenger.remember(link)
        elif message.releases == known.releases and message.head != known.head:
            if known.run and not link.suspect.repeated((message.releases, message.head)):
                return True
            text = f"{known.releases} releases, and others than before under the same start"
            self._conflict(link, known.run, text)
            link.on(SessionEvent.FORK)
        return link.session is SessionState.FORKED

    def _dispute(self, link: Link, message: Hello | CumulativeMass) -> None:
        """A neighbour acknowledges more than was sent: proved, or not accepted.

        Without a secret there is no proof. Then a neighbour that has acknowledged a round of this
        run has named the last it knew of by then, and all others are believed.
        """
        state, authenticator = self._state, self._identity.authenticator
        incarnation, number = message.peer_incarnation, message.acknowledged
        text = (
            f"it acknowledges round {number} of incarnation {incarnation}, here is round "
            f"{state.round} of {state.incarnation}"
        )
        confirmed = incarnation == state.incarnation and link.acknowledged > state.first_round
        if not authenticator and confirmed:
            last = f"round {link.acknowledged} was the last it acknowledged"
            self._messenger.reject(link.peer, f"{text}, and {last}")
        elif authenticator.verifies(message.echo, incarnation, number):
            # To go on would release anew what neighbours have already received.
            self._messenger.report("rolled-back", link.peer, f"{text}; the ledger was rolled back")
            self._completion.finish("rolled-back")
            self._completion.halt()
        else:
            self._messenger.reject(
                link.peer,
                f"{text}, which it does not prove; if the ledger here is new, the others need a "
                "new epoch to continue with it",
            )
