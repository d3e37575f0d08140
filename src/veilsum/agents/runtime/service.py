"""What a service manager is sent (the protocol of sd_notify): ready, status, alive, stopping.

systemd passes the address of a datagram socket in NOTIFY_SOCKET, and in WATCHDOG_USEC how often it
wants to hear that the service is alive. Both are removed from the environment, so that a command which
supplies readings does not speak for the agent. Elsewhere nothing is sent.

`alive` is called in every turn of the agent's loop: an agent whose loop stands still is restarted,
which is safe at any time.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from veilsum.agents.runtime.status import AgentStatus

PARTS = 3.0  # messages in the time after which the manager restarts the service


class ServiceNotifier:
    """Sends messages to the service manager that started this process, if one did.

    Parameters
    ----------
    environment : mapping, optional
        Of the process; what belongs to the manager is removed from it.
    clock : callable
        Seconds that never decrease.

    Attributes
    ----------
    interval : float or None
        Seconds between two messages that the service is alive; None if none are asked for.
    problem : str
        Why the last message could not be sent; empty if it was. The agent goes on.

    Examples
    --------
    >>> notifier = ServiceNotifier({})
    >>> notifier.ready()  # there is no manager, and nothing is sent
    >>> notifier.active, notifier.interval, notifier.problem
    (False, None, '')
    """

    def __init__(
        self,
        environment: MutableMapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Find the socket; nothing is sent yet."""
        found = os.environ if environment is None else environment
        address = found.pop("NOTIFY_SOCKET", "")
        patience = found.pop("WATCHDOG_USEC", "")
        process = found.pop("WATCHDOG_PID", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._clock, self._last = clock, -float("inf")
        asked = patience.isdecimal() and int(patience) > 0 and process in ("", str(os.getpid()))
        self.interval = int(patience) / 1e6 / PARTS if asked and address else None
        self.problem = ""

    @property
    def active(self) -> bool:
        """Whether a manager listens."""
        return bool(self._address)

    def ready(self) -> None:
        """The agent has its ledger, listens, and takes part as others come."""
        self._send("READY=1")

    def stopping(self) -> None:
        """The agent ends in good order."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """The loop has turned; sent a few times in the manager's patience."""
        now = self._clock()
        if self.interval is not None and now - self._last >= self.interval:
            self._last = now
            self._send("WATCHDOG=1")

    def show(self, status: AgentStatus) -> None:
        """One line for `systemctl status`, from what may be released."""
        result = status.result
        self._send(f"STATUS={status.state}, round {result.round}; {result.coverage.sentence()}")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
                made.setblocking(False)  # a manager that is busy never holds the agent up
                made.sendto(text.encode(), self._address)
            self.problem = ""
        except OSError as problem:
            self.problem = problem.strerror or str(problem)
