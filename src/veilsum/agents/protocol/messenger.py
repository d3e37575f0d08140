"""Collects the actions of one event: messages, reports and timers, in order.

A message that tells of a change that is not yet saved makes the whole batch rely on a snapshot:
`Agent.handle` puts the `Persist` first.
"""

from __future__ import annotations

from collections.abc import Iterable

from veilsum.agents.events import (
    Action,
    AgentReport,
    Done,
    PostRegister,
    Remember,
    Send,
    SetTimer,
)
from veilsum.agents.manifest import Manifest
from veilsum.agents.messages import Attendance, CumulativeMass, Hello, RangeReport, Register
from veilsum.agents.protocol.history import AgentIdentity
from veilsum.agents.protocol.link import Link
from veilsum.agents.protocol.mass import Mass
from veilsum.agents.protocol.memory import AgentState
from veilsum.agents.protocol.states import SessionState
from veilsum.agents.protocol.termination import TerminationDetector

_make = tuple.__new__  # of a NamedTuple, all fields given: half the time of calling it
_NO_RANGE = RangeReport()


class Messenger:
    """Writes what an agent sends and reports.

    Parameters
    ----------
    manifest : Manifest
        What Hellos name.
    state, identity, mass : AgentState, AgentIdentity, Mass
        What messages are written from.
    detector : TerminationDetector or None
        Whose range report travels with the mass.

    Attributes
    ----------
    actions : list
        Of the present event.
    relies_on_snapshot : bool
        Whether one of them tells of something that is not saved.
    renewed : bool
        Whether a new incarnation began with this event.
    """

    def __init__(
        self,
        manifest: Manifest,
        state: AgentState,
        identity: AgentIdentity,
        mass: Mass,
        detector: TerminationDetector | None,
    ) -> None:
        """No action yet."""
        self._manifest, self._state, self._identity = manifest, state, identity
        self._mass, self._detector = mass, detector
        self.actions: list[Action] = []
        self.relies_on_snapshot = self.renewed = False

    def begin_event(self) -> None:
        """No action yet."""
        self.actions, self.relies_on_snapshot, self.renewed = [], False, False

    def renew(self) -> None:
        """A new incarnation begins: it is saved first, and what the old one was to send is not."""
        self.renewed = True
        self.actions = [
            action for action in self.actions if not isinstance(action, Send | PostRegister)
        ]

    def send_hello(self, link: Link, asks: bool = False) -> None:
        """Send a Hello: who this agent is, and what it remembers of the neighbour.

        It asks for an answer if `asks`, until the neighbour has said what it remembers, and while
        the last Hello was under another manifest.
        """
        asks = asks or not link.confirmed or link.session is SessionState.MISMATCHED
        own, state, identity = self._manifest, self._state, self._identity
        self.actions.append(Send(Hello(
            state.label, link.peer, state.incarnation, link.peer_incarnation, own.epoch, own.digest,
            own.field_digests, link.in_round, identity.authenticator.tag(state.incarnation, 0),
            link.in_tag, identity.status, link.known, asks,
        )))  # fmt: skip

    def send_mass(self, link: Link) -> None:
        """Send the cumulative mass of a link; a change is saved first.

        Where rounds are clipped, a neighbour that may still be in the round before needs its message.
        """
        state = self._state
        self._send_mass((link,))
        if link.part is not None and link.acknowledged < state.round - 1 and not state.leaving:
            self._send_round_before(link.part)

    def _send_round_before(self, part: tuple[tuple[int, ...], int]) -> None:
        """Before the last message, that of the round before it: without the parts of this round."""
        last = self.actions[-1]
        assert isinstance(last, Send)
        mass, number, (sums, weight) = last.message, self._state.round - 1, part
        assert isinstance(mass, CumulativeMass)
        self.actions.insert(-1, Send(mass._replace(
            round=number, tag=self._identity.authenticator.tag(mass.incarnation, number),
            sums=tuple([a - b for a, b in zip(mass.sums, sums, strict=True)]),
            weight=mass.weight - weight,
        )))  # fmt: skip

    def _send_mass(self, links: Iterable[Link]) -> None:
        state, identity = self._state, self._identity
        if state.unsaved:
            self.relies_on_snapshot = True
        label, incarnation, number = state.label, state.incarnation, state.round
        report = self._range_report()
        leaving, ended = state.leaving, state.reason != ""
        tag, run = identity.authenticator.tag(incarnation, number), identity.run
        releases, head, proof = identity.release_fields
        view, append = state.view, self.actions.append
        for link in links:
            append(_make(Send, (_make(CumulativeMass, (
                label, link.peer, incarnation, link.peer_incarnation, number, link.in_round,
                link.out_sums, link.out_weight, report, leaving, ended, tag, link.in_tag, run,
                releases, head, proof, view,
            )),)))  # fmt: skip

    def _range_report(self) -> RangeReport:
        """What goes with the mass: the detector's report, or up to which round mixing was undone."""
        if self._detector is not None:
            return self._detector.report
        since = self._state.unmixed
        return RangeReport(stop=since) if since else _NO_RANGE

    def send_attendance(self, link: Link, register: Register, asks: bool) -> None:
        """Send a neighbour who takes part; if asked, it answers."""
        state = self._state
        self.actions.append(Send(Attendance(
            state.label, link.peer, state.incarnation, self._identity.run, register, asks
        )))  # fmt: skip

    def post_register(self, register: Register) -> None:
        """Let the agents of this process know who takes part."""
        self.actions.append(PostRegister(self._state.incarnation, self._identity.run, register))

    def send_mass_to_all(self, links: Iterable[Link]) -> None:
        """Send every neighbour in reach the cumulative mass of its link."""
        if near := [link for link in links if link.in_reach]:
            self._send_mass(near)

    def warn(self, link: Link) -> None:
        """Send a neighbour what is remembered of it, once between two resends."""
        if not link.warned:
            link.warned = True
            self.send_hello(link)

    def remember(self, link: Link) -> None:
        """Have the neighbour's status stored."""
        self.actions.append(Remember(link.peer, link.known))

    def set_timer(self, timer: str, seconds: float) -> None:
        """Ask for a `Deadline` after so many seconds."""
        self.actions.append(SetTimer(timer, seconds))

    def report(self, kind: str, peer: str = "", text: str = "") -> None:
        """Add a line for the log."""
        state = self._state
        estimate = state.result if state.reason else self._mass.estimate
        self.actions.append(AgentReport(kind, state.round, peer, text, estimate))

    def reject(self, peer: str, text: str) -> None:
        """Report whose message was not accepted, and why."""
        self.actions.append(AgentReport("rejected", self._state.round, peer, text))

    def done(self) -> None:
        """Say that the agent is done."""
        state = self._state
        self.actions.append(Done(state.result_round, state.result, state.reason, state.coverage))
