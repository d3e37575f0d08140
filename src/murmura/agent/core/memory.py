"""One name, one history: what neighbours remember of a member, and what it makes of that.

A neighbour remembers of each member, for ever: the last start of its ledger (a number that rises
with every opening, and 8 random bytes, the run) and the last head of its releases. It says both in
every Hello. A member that starts says Hello and releases nothing until neighbours have answered in
its present run (`cleared`).

The member compares what is remembered with its own ledger:
- a head that its ledger does not lead to: the ledger was lost, put back, or a copy released more;
- a later start, or the same start with another run: another copy of the ledger is in use.
Either ends it, before it releases anything new. A claim needs the member's own proof, so liars end
nobody; only a ledger that has released nothing takes claims without proof, since its secret may be
as new as it is.

The neighbour takes messages of one run only, the latest start's: what an older run says, or a
second one of the same start, is refused and reported, and answered by a Hello that tells it so.
"""

from __future__ import annotations

from murmura.agent import events as ev
from murmura.agent.core.flows import Flows
from murmura.agent.core.history import History
from murmura.agent.core.link import Link
from murmura.agent.core.options import Options
from murmura.agent.core.tokens import Tokens
from murmura.agent.manifest import Manifest
from murmura.agent.messages import Hello, Standing, Totals

CONFLICT = "conflicting-releases"
FORWARD = (
    "nothing was released; if another copy of this ledger runs, stop one of them and start this "
    "one again; if the ledger was lost or put back, restore the newest copy; if there is none, "
    "what was released cannot be known: go on under a new name (`murmura keys issue`) and count "
    "its budget on top"
)


class Memory(Flows):
    """What is remembered on both sides of a link."""

    def __init__(self, manifest: Manifest, label: str, options: Options) -> None:
        """Nothing was released and nobody is remembered."""
        super().__init__(manifest, label, options)
        self.tokens = Tokens()
        self.history = History(label)
        self.start, self.run = 0, b""
        self._start_proof = b""
        self._said = (0, b"", b"")  # the releases, their head and its seal, as messages carry them
        self._out: list[ev.Action] = []
        self._mute = False

    def finish(self, reason: str) -> None:
        """Say that the agent is done."""
        raise NotImplementedError

    def report(self, kind: str, peer: str = "", text: str = "") -> None:
        """Add a line for the log."""
        raise NotImplementedError

    def reject(self, peer: str, text: str) -> None:
        """Say whose message was not taken, and why."""
        raise NotImplementedError

    def _hello(self, link: Link) -> None:
        """Say Hello."""
        raise NotImplementedError

    @property
    def cleared(self) -> bool:
        """Whether enough neighbours have said in this run what they remember of this agent."""
        needed = min(self.options.confirmations, len(self.links))
        return sum(link.confirmed for link in self.links) >= needed

    @property
    def standing(self) -> Standing:
        """Where this agent stands: its start, and what it has released."""
        return Standing(self.start, self.run, self._start_proof, *self._said)

    def recall(self, event: ev.Started | ev.Restarted) -> None:
        """Take over who this run is, what was released before, and what is remembered."""
        self.tokens = Tokens(event.secret)
        self.history = History(self.label, event.secret)
        self.start, self.run = event.start, event.run
        self._start_proof = self.tokens.of_start(event.start, event.run)
        for released in event.released:
            self.history.add(released)
        self._renew()
        for peer, known in event.remembered:
            if peer in self.by_peer:
                self.by_peer[peer].known = known

    def offer(self, released: ev.Released) -> None:
        """Note a release, in the history too."""
        if self.history.add(released):
            self._renew()
        super().offer(released)

    def _renew(self) -> None:
        count, head = len(self.history), self.history.head
        self._said = count, head, self.tokens.of_releases(count, head)

    def contradicted(self, link: Link, known: Standing) -> bool:
        """Whether a neighbour remembers what this ledger does not know of; if proved, the end."""
        why, proved = self._contradiction(known)
        if not why:
            return False
        if proved or not len(self.history):
            self.report(CONFLICT, link.peer, f"{why}; {FORWARD}")
            if not self.reason:  # the estimate of who is done already stands
                self.finish(CONFLICT)
            self._mute = True
        else:
            self.reject(link.peer, f"{why}, which it does not prove")
        return True

    def _contradiction(self, known: Standing) -> tuple[str, bool]:
        """Why what is remembered of this agent is not of its ledger, and whether it is proved."""
        count, own = known.releases, len(self.history)
        if count and (count > own or self.history.at(count) != known.head):
            text = f"it remembers {count} releases of this name, and the ledger here has {own}"
            if count <= own:
                text += f", of which the first {count} are others"
            return text, self.tokens.proves_releases(known.seal, count, known.head)
        if (known.start, known.run != self.run) > (self.start, False):
            other = " by another run" if known.start == self.start else ""
            text = (
                f"it knows start {known.start}{other} of this ledger, here is start {self.start}: "
                "another copy of it is in use, or it was put back"
            )
            return text, self.tokens.proves_start(known.proof, known.start, known.run)
        return "", False

    def doubtful(self, link: Link, hello: Hello) -> str:
        """Why a Hello cannot be of the member that is remembered, or nothing."""
        known, own = link.known, hello.own
        said = f"start {own.start} with {own.releases} releases"
        if own.start < known.start:
            return (
                f"{said} after start {known.start} with {known.releases}: an old message, or its "
                "ledger was lost, copied or put back"
            )
        if own.start == known.start and own.run != known.run and known.run:
            return self._conflict(link, own.run, f"two copies of its ledger speak as {said}")
        if own.run != known.run and own.releases < known.releases:
            text = f"{said} and {known.releases} are remembered: its ledger was put back or copied"
            return self._conflict(link, own.run, text)
        if own.releases == known.releases and own.head != known.head:
            return self._conflict(link, own.run, f"{said} that are not those remembered")
        return ""

    def _conflict(self, link: Link, run: bytes, text: str) -> str:
        """Report a conflict, once for each run that causes one."""
        if link.conflict != run or not link.conflict:
            link.conflict = run or b"none"
            self.report(CONFLICT, link.peer, f"{text}; refused: it must find out which is right")
        return text

    def listen_to(self, link: Link, own: Standing) -> bool:
        """Take a member's present run for the one to listen to; whether it is another than before.

        What it released is taken over with its first totals, which it sends after it has compared.
        """
        if own.run == link.known.run and own.start == link.known.start:
            return False
        known = link.known
        link.known = known._replace(start=own.start, run=own.run, proof=own.proof)
        link.open, link.forked = False, False
        self._out.append(ev.Remember(link.peer, link.known))
        return True

    def remember(self, link: Link, message: Totals) -> None:
        """Keep the last head of a member; two heads of as many releases are two histories."""
        known = link.known
        if message.releases > known.releases:
            link.known = known._replace(
                releases=message.releases, head=message.head, seal=message.seal
            )
            self._out.append(ev.Remember(link.peer, link.known))
        elif message.releases == known.releases and message.head != known.head:
            text = f"{known.releases} releases, and others than before under the same start"
            self._conflict(link, known.run, text)
            link.open, link.forked = False, True

    def warn(self, link: Link) -> None:
        """Tell a name what is remembered of it, once between two resends."""
        if not link.warned:
            link.warned = True
            self._hello(link)
