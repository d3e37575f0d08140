"""Which remote agents are up: alive by their tokens of liveliness, on a device that is admitted.

A device that proves its certificate is admitted while its channel is open. One without the mark of
proofs, of an earlier version, is admitted by its TLS link, unless it must prove itself. Without
certificates, on loopback, everybody is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from veilsum.agents.transport.channels import MARK, Channels
from veilsum.agents.transport.zenoh_config import parse_key

Change = tuple[str, bool]  # an agent, and whether it is up now


class Presence:
    """The sessions in which each remote agent is alive: it is up while there is one.

    A restarted device may be back before its former session has expired.
    """

    def __init__(self, devices: Mapping[str, str]) -> None:
        """No agent is up; `devices` has the device of each agent."""
        self._devices = devices
        self._sessions: dict[str, set[str]] = {}

    def update(self, key: str, alive: bool) -> tuple[str, bool] | None:
        """The agent that a token brings up or takes down, if it does."""
        parsed = parse_key(key)
        if parsed is None or self._devices.get(parsed.sender) != parsed.source:
            return None
        sessions = self._sessions.setdefault(parsed.sender, set())
        before = bool(sessions)
        (sessions.add if alive else sessions.discard)(parsed.last)
        return (parsed.sender, alive) if before != bool(sessions) else None

    def sessions(self, agent: str) -> frozenset[str]:
        """The sessions in which an agent is alive."""
        return frozenset(self._sessions.get(agent, ()))


class PeerAdmission:
    """Who is up, and who may be spoken to; for one session of a device.

    Parameters
    ----------
    devices : mapping of str to str
        The device of every agent.
    remote : collection of str
        The remote neighbours.
    channels : Channels, optional
        None without certificates.
    """

    def __init__(
        self, devices: Mapping[str, str], remote: Collection[str], channels: Channels | None
    ) -> None:
        """Nobody is up."""
        self.channels, self._presence = channels, Presence(devices)
        self._agents: dict[str, list[str]] = {}
        for agent in remote:
            self._agents.setdefault(devices[agent], []).append(agent)
        self._up: set[str] = set()

    def token(self, key: str, alive: bool) -> list[Change]:
        """What a token of liveliness changes."""
        self._presence.update(key, alive)
        parsed = parse_key(key)
        if parsed is None:
            return []
        agents = self._agents.get(parsed.source, ())
        if self.channels is not None and not any(map(self._presence.sessions, agents)):
            self.channels.forget(parsed.source)
        return self.refresh(parsed.source)

    def refresh(self, device: str) -> list[Change]:
        """Which agents of a device came up or went down since the last call."""
        admitted, changes = self.admits(device), []
        for agent in self._agents.get(device, ()):
            up = admitted and bool(self._presence.sessions(agent))
            if up != (agent in self._up):
                (self._up.add if up else self._up.discard)(agent)
                changes.append((agent, up))
        return changes

    def reopened(self, device: str) -> list[Change]:
        """A device has another session than before: what was sent to the former may be lost."""
        before = [agent for agent in self._agents.get(device, ()) if agent in self._up]
        self._up -= set(before)
        return [*((agent, False) for agent in before), *self.refresh(device)]

    def leave(self) -> list[Change]:
        """All who were up, as down: the session ends."""
        gone, self._up = sorted(self._up), set()
        return [(agent, False) for agent in gone]

    def admits(self, device: str) -> bool:
        """Whether a device may speak, and be spoken to."""
        channels = self.channels
        if channels is None or channels.channel(device) is not None:
            return channels is None or not channels.trust.denied_name(device)
        return not (channels.must_prove(device) or self.proves(device))

    def admits_plain(self, device: str) -> bool:
        """Whether a device is heard without a seal: by its TLS alone, as an earlier version."""
        return self.channels is None or not self.channels.must_prove(device)

    def hears_plain(self, device: str) -> bool:
        """Whether a device is there, and hears what has no seal."""
        there = any(self._presence.sessions(agent) for agent in self._agents.get(device, ()))
        return there and self.admits(device)

    def proves(self, device: str) -> bool:
        """Whether a session of a device has the mark of proofs."""
        sessions = (self._presence.sessions(agent) for agent in self._agents.get(device, ()))
        return any(session.endswith(MARK) for each in sessions for session in each)
