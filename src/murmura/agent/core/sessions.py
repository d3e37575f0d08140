"""Sessions: who a neighbour is, in which of its lives, and under which terms.

A link is open when both sides know both lives and follow the same manifest; totals count only
within that session. A neighbour's new life undoes the old flows; an old life is stale; a life or
round of this agent that it does not remember, and the neighbour proves with a token, means that
its ledger was rolled back. Hellos and totals both carry the proof, and after a start nothing is
pushed over a link before the neighbour's first word: it is found before anything new is said.
"""

from __future__ import annotations

from murmura.agent import events as ev
from murmura.agent.core.link import Link
from murmura.agent.core.memory import Memory
from murmura.agent.core.options import Options
from murmura.agent.manifest import Manifest
from murmura.agent.messages import Extremes, Hello, Totals

_make = tuple.__new__  # of a NamedTuple, all fields given: half the time of calling it


class Sessions(Memory):
    """Links that open, close and speak."""

    def __init__(self, manifest: Manifest, label: str, options: Options) -> None:
        """Nobody is known yet."""
        super().__init__(manifest, label, options)
        self.leaving = False
        self._relies = False  # a message of this batch tells of something not yet persisted
        self.began = 0  # the round that this run of the agent began with

    def _changed(self) -> None:
        """A reading came, ended, or a link changed: go on if possible."""
        raise NotImplementedError

    def _told(self, link: Link, message: Totals) -> None:
        """Totals of the present session came."""
        raise NotImplementedError

    def _arrived(self, link: Link, message: Totals) -> None:
        """Totals of a later round came from an open link."""
        raise NotImplementedError

    def _extremes(self) -> Extremes:
        return Extremes()

    def _peer_up(self, event: ev.PeerUp) -> None:
        link = self.by_peer.get(event.peer)
        if link is not None and self.life:
            link.down = link.silent = False
            link.since = self.round
            self._greet(link)
            self._changed()

    def _peer_down(self, event: ev.PeerDown) -> None:
        link = self.by_peer.get(event.peer)
        if link is not None and self.life:
            link.down = True
            self.report("peer", link.peer, "cannot be reached")
            self._changed()

    def _greet(self, link: Link) -> None:
        self._hello(link)
        if link.open:
            self.tell(link)

    def _hello(self, link: Link) -> None:
        own = self.manifest
        self._out.append(ev.Send(Hello(
            self.label, link.peer, self.life, link.peer_life, own.epoch, own.digest,
            own.field_digests, link.in_round, self.tokens.of(self.life, 0), link.in_token,
            self.standing, link.known, not link.confirmed,
        )))  # fmt: skip

    def tell(self, link: Link) -> None:
        """Send the totals of a link as they stand; a change is persisted first."""
        if self.dirty:
            self._relies = True
        self._out.append(_make(ev.Send, (_make(Totals, (
            self.label, link.peer, self.life, link.peer_life, self.round, link.in_round,
            link.out_sums, link.out_weight, self._extremes(), self.leaving, self.reason != "",
            self.tokens.of(self.life, self.round), link.in_token, self.run, *self._said,
        )),)))  # fmt: skip

    def _received(self, event: ev.Received) -> None:
        message = event.message
        link = self.by_peer.get(message.sender)
        if link is None or message.receiver != self.label:
            self.reject(message.sender, f"not a link of {self.label}, to {message.receiver!r}")
        elif isinstance(message, Hello):
            self._greeted(link, message)
        elif message.peer_life != self.life or message.life != link.peer_life or link.refused:
            self._stranger(link, message)
        elif message.run != link.known.run or not link.confirmed:
            self._unintroduced(link, message)
        elif self._forked(link, message):
            self.reject(link.peer, "two that say they are the same run of it have spoken")
            self.warn(link)
        elif message.heard > self.round:
            self._overheard(link, message)
        elif link.expects(message, self.limits) and not (self.reason or self.leaving):
            if message.heard > link.acked:
                link.acked = message.heard
            self._arrived(link, message)
        else:
            self._told(link, message)

    def _greeted(self, link: Link, hello: Hello) -> None:
        if self.contradicted(link, hello.known):
            return
        if hello.manifest != self.manifest.digest:
            self._mismatch(link, hello)
        elif why := self.doubtful(link, hello):
            self.reject(link.peer, f"a Hello of {why}")
            self.warn(link)
        elif hello.life < max(link.peer_life, 1):
            self.reject(link.peer, f"a Hello of life {hello.life} after one of {link.peer_life}")
        elif (hello.peer_life, hello.heard) > (self.life, self.round):
            self._overheard(link, hello)
        else:
            self._welcome(link, hello)

    def _welcome(self, link: Link, hello: Hello) -> None:
        """A Hello of a neighbour that is who it says; answer until both know both runs."""
        link.refused, link.down = b"", False
        another = self.listen_to(link, hello.own)
        named = hello.known.run == self.run
        link.confirmed = link.confirmed or named
        if hello.life > link.peer_life:
            self.undo(link, hello.life, hello.token)
        known = named and hello.peer_life == self.life
        if another or hello.asks or not known:
            self._hello(link)
        if known and not link.forked:
            self.opened(link)
            self.tell(link)
        self._changed()

    def _unintroduced(self, link: Link, message: Totals) -> None:
        """Totals of another run than the one that said Hello, or before it knows this one."""
        if link.confirmed:
            why = "an old message, or another copy of its ledger is in use"
            self.reject(link.peer, f"round {message.round} of another run of it: {why}")
        self.warn(link)

    def _forked(self, link: Link, message: Totals) -> bool:
        """Whether two histories speak as one run; keeps the last head otherwise."""
        if message.releases != link.known.releases or message.head != link.known.head:
            self.remember(link, message)
        return link.forked

    def _mismatch(self, link: Link, hello: Hello) -> None:
        if link.refused != hello.manifest:
            link.refused, link.open = hello.manifest, False
            differs = self.manifest.first_difference(hello.fields)
            own, other = self.manifest.digest.hex(), hello.manifest.hex()
            text = f"its manifest is {other}, the one here is {own}; they differ first in {differs}"
            self.report("mismatch", link.peer, text)
            self._hello(link)
            self._changed()

    def _stranger(self, link: Link, message: Totals) -> None:
        """Totals of a session that is not the present one."""
        if link.refused:
            self.reject(link.peer, "it follows another manifest")
        elif message.life < link.peer_life:
            self.reject(link.peer, f"totals of life {message.life} after {link.peer_life}")
        elif message.peer_life > self.life:
            self._overheard(link, message)
        else:
            self._hello(link)

    def _overheard(self, link: Link, message: Hello | Totals) -> None:
        """A neighbour says that it heard more than was said: proved, or not taken.

        Without a secret there is no proof. Then whoever has confirmed a round of this run has
        named the last it knew of by then, and all others are believed.
        """
        life, heard = message.peer_life, message.heard
        text = f"it heard round {heard} of life {life}, here is round {self.round} of {self.life}"
        if not self.tokens and life == self.life and link.acked > self.began:
            self.reject(link.peer, f"{text}, and round {link.acked} was the last it confirmed")
        elif self.tokens.proves(message.echo, life, heard):
            self._rolled_back(link, text)
        else:
            self.reject(
                link.peer,
                f"{text}, which it does not prove; if the ledger here is new, the others need a "
                "new epoch to go on with it",
            )

    def _rolled_back(self, link: Link, text: str) -> None:
        """The ledger is older than what neighbours saw: to go on would release anew."""
        self.report("rolled-back", link.peer, f"{text}; the ledger was rolled back")
        self.finish("rolled-back")
        self._mute = True

    @property
    def alone(self) -> bool:
        """Whether no neighbour is heard."""
        return not any(link.open and link.waited for link in self.links)

    def _reached(self, link: Link) -> bool:
        return link.open and not (link.down or link.closed)

    def _unheard(self, link: Link) -> bool:
        return self._reached(link) and link.acked < self.round

    def report(self, kind: str, peer: str = "", text: str = "") -> None:
        """Add a line for the log."""
        self._out.append(ev.Report(kind, self.round, peer, text, self.estimate))

    def reject(self, peer: str, text: str) -> None:
        """Say whose message was not taken, and why."""
        self._out.append(ev.Report("rejected", self.round, peer, text))
