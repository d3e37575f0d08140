"""Serves the statuses of a process's agents to observers: TLS on both ends, and nothing is read.

    loop --> offer (newest status of each agent) --> a thread for each link --> observer

The loop only leaves the newest status for each link; a thread of the link sends it. One that is slow
finds a newer status there and has missed those between, which the sequence numbers show. After the
handshake an observer has nothing to say: a single byte from it ends the link. Its certificate is held to
its end and to the deny list while the link is open; the site's own is replaced when it is renewed.
"""

from __future__ import annotations

import json
import selectors
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from cryptography import x509

from veilsum.agents.messages import StatusMessage
from veilsum.agents.pki import Credentials, KeyWatch, check_credentials
from veilsum.agents.pki.certificates import common_name_on, observer_of
from veilsum.agents.transport.zenoh_config import Endpoint
from veilsum.agents.wire import encode_status
from veilsum.errors import AgentError

if TYPE_CHECKING:
    from veilsum.agents.runtime.log import Log
    from veilsum.agents.runtime.status import AgentStatus

MOST_LINKS = 16  # at once, handshakes among them
MOST_OF_ONE = 4  # of them of one observer
HANDSHAKE = 5.0  # seconds
STALLED = 10.0  # seconds in which an observer takes nothing, after which its link is closed
FAREWELL = 1.0  # seconds for the last statuses when the agent ends
LONGEST_WAIT = 60.0  # seconds
MOMENT = 0.05  # seconds for what has come already
KIND = "observer"  # of log lines


class StatusPublisher:
    """Serves statuses; a receiver of `StatusReporter`.

    Parameters
    ----------
    agent : str
        The label that log lines are about.
    endpoint : Endpoint
        Where to listen; port 0 takes any free one.
    credentials : Credentials
        The site's certificate.
    device : str
        The name on it.
    allow : collection of str
        Names of observers that may read.
    watch : KeyWatch, optional
        Follows the site's certificate and the deny list; without a deny list by default.

    Raises
    ------
    AgentError
        If the certificate cannot be used.

    Attributes
    ----------
    port : int
        Where it listens; 0 before `start`.
    """

    def __init__(
        self,
        agent: str,
        endpoint: Endpoint,
        credentials: Credentials,
        device: str,
        allow: Collection[str],
        watch: KeyWatch | None = None,
    ) -> None:
        """Nothing is served yet."""
        check_credentials(credentials, device)
        self._watch, self._owns_watch = watch or KeyWatch(credentials, device), watch is None
        self._credentials = credentials
        self.agent, self.endpoint, self.allow = agent, endpoint, frozenset(allow)
        self.port = 0
        self._context = server_context(credentials)
        self._lock = threading.Lock()
        self._links: set[ObserverLink] = set()
        self._busy = 0  # links and handshakes
        self._last: dict[str, tuple[int, str]] = {}  # by agent: sequence and text
        self._listener: socket.socket | None = None
        self._log: Log | None = None
        self._closed = False

    def start(self, log: Log) -> int:
        """Begin to serve.

        Parameters
        ----------
        log : Log
            Where links and refusals are written.

        Returns
        -------
        int
            The port.

        Raises
        ------
        AgentError
            If the port is taken.
        """
        self._log = log
        try:
            self._listener = _listen(self.endpoint)
        except OSError as problem:
            raise AgentError(
                f"cannot serve statuses on {self.endpoint}: {problem.strerror or problem}; choose "
                "another [observers] listen"
            ) from None
        self.port = int(self._listener.getsockname()[1])
        self._watch.renewed.append(self._renew)
        self._watch.changed.append(self._review)
        self._watch.start()
        threading.Thread(target=self._accept, daemon=True, name="veilsum-observers").start()
        self._write("info", f"serves statuses on {self.endpoint._replace(port=self.port)}")
        return self.port

    def __call__(self, status: AgentStatus) -> None:
        """Leave a status for all observers that are there; never waits."""
        label = status.result.agent
        text = json.dumps(status.public(), allow_nan=False, ensure_ascii=False)
        with self._lock:
            sequence = self._last.get(label, (0, ""))[0] + 1
            self._last[label] = (sequence, text)
            links = tuple(self._links)
        for link in links:
            link.offer(label, sequence, text)

    def _renew(self) -> None:
        """Show the new certificate to those who connect from now on."""
        chain = str(self._credentials.certificate), str(self._credentials.key)
        try:
            self._context.load_cert_chain(*chain)
            self._context.load_verify_locations(cafile=str(self._credentials.ca))
        except (OSError, ValueError) as problem:
            self._write("warning", f"the new certificate cannot be served: {_reason(problem)}")

    def _review(self) -> None:
        """Have all links look at the deny list."""
        with self._lock:
            links = tuple(self._links)
        for link in links:
            link.wake()

    def close(self) -> None:
        """Send what is left for a second at most, and close all links; may be called twice."""
        with self._lock:
            if self._closed:
                return
            self._closed, links = True, tuple(self._links)
        if self._owns_watch:
            self._watch.close()
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            self._listener.close()
        end = time.monotonic() + FAREWELL
        for link in links:
            link.finish()
        for link in links:
            link.thread.join(max(0.0, end - time.monotonic()))
            link.abort()

    def _accept(self) -> None:
        assert self._listener is not None
        while True:
            try:
                plain, address = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                if self._closed:
                    return
                time.sleep(0.1)  # out of file descriptors, for example
                continue
            with self._lock:
                full = self._busy >= MOST_LINKS or self._closed
                self._busy += not full
            if full:
                plain.close()
                self._refuse(address[0], f"there are {MOST_LINKS} links already")
                continue
            serve = threading.Thread(target=self._serve, args=(plain, str(address[0])), daemon=True)
            try:
                serve.start()
            except RuntimeError:  # the machine has no thread left: others go on
                plain.close()
                with self._lock:
                    self._busy -= 1

    def _serve(self, plain: socket.socket, host: str) -> None:
        """One link from its handshake to its end, in a thread of its own."""
        try:
            link = self._admitted(plain, host)
            if link is not None:
                try:
                    self._write(
                        "info", f"{link.observer} reads statuses from {host}", link.observer
                    )
                    self._write("info", f"{link.observer} is gone: {link.run()}", link.observer)
                finally:
                    with self._lock:
                        self._links.discard(link)
        finally:
            plain.close()
            with self._lock:
                self._busy -= 1

    def _admitted(self, plain: socket.socket, host: str) -> ObserverLink | None:
        """The link of an observer that may read; others are refused, with a line in the log."""
        plain.settimeout(HANDSHAKE)
        try:
            link = self._context.wrap_socket(plain, server_side=True)
        except (OSError, ValueError) as problem:
            plain.close()
            self._refuse(host, f"no TLS with a certificate of this fleet: {_reason(problem)}")
            return None
        name, reason = self._examine(link)
        if name is None:
            link.close()
            self._refuse(host, reason)
            return None
        made = ObserverLink(link, name, self._watch)
        with self._lock:
            count = Counter(other.observer for other in self._links)[name]
            if count < MOST_OF_ONE and not self._closed:
                self._links.add(made)
                waiting = dict(self._last)
            else:
                waiting = None
        if waiting is None:
            made.discard()
            self._refuse(host, f"{name} has {count} links already")
            return None
        for label, (sequence, text) in waiting.items():
            made.offer(label, sequence, text)
        return made

    def _examine(self, link: ssl.SSLSocket) -> tuple[str | None, str]:
        """The observer that may read, or why this one may not."""
        try:
            shown = link.getpeercert(binary_form=True) or b""
            name, reason = observer_of(shown), refusal(self._watch, shown)
        except ValueError:
            return None, "its certificate cannot be read"
        if reason:
            return None, reason
        if name is None:
            return None, "this is no observer's certificate: members have links of their own"
        if name not in self.allow:
            return None, f"observer {name} is not allowed here: it is not in [observers] allow"
        return name, ""

    def _refuse(self, host: str, reason: str) -> None:
        """A line for each of the first few; whoever connects may invent hosts and names."""
        self._write("warning", f"{host} was refused: {reason}", group="refused")

    def _write(self, level: str, text: str, observer: str = "", group: str | None = None) -> None:
        if self._log is not None:
            self._log.write(KIND, self.agent, text, level=level, group=group, peer=observer)


class ObserverLink:
    """One observer's link: room for the newest status of each agent, and a thread that sends it.

    Parameters
    ----------
    link : SSLSocket
        After its handshake.
    observer : str
        The name on its certificate.
    watch : KeyWatch
        Says when that certificate is accepted no longer.
    """

    def __init__(self, link: ssl.SSLSocket, observer: str, watch: KeyWatch) -> None:
        """Nothing waits to be sent."""
        self.link, self.observer, self._watch = link, observer, watch
        self._shown = link.getpeercert(binary_form=True) or b""
        self.thread = threading.current_thread()
        self._pending: dict[str, tuple[int, str]] = {}
        self._lock = threading.Lock()
        self._bell, self._ring = socket.socketpair()
        self._ring.setblocking(False)
        self._finishing = False
        self._expires = self.expiry(link)

    @staticmethod
    def expiry(link: ssl.SSLSocket) -> float:
        """When the observer's certificate expires, in seconds of the epoch."""
        certificate = link.getpeercert() or {}
        return float(ssl.cert_time_to_seconds(str(certificate["notAfter"])))

    def offer(self, agent: str, sequence: int, text: str) -> None:
        """Leave a status in place of the one that waits; from any thread."""
        with self._lock:
            if self._pending.get(agent, (0, ""))[0] < sequence:
                self._pending[agent] = (sequence, text)
        self.wake()

    def finish(self) -> None:
        """Send what waits, and end."""
        self._finishing = True
        self.wake()

    def abort(self) -> None:
        """End at once; from any thread: the link's own closes it."""
        with suppress(OSError):  # not the method of SSLSocket, which would let plain text through
            socket.socket.shutdown(self.link, socket.SHUT_RDWR)

    def discard(self) -> None:
        """Close everything; by the link's own thread."""
        for part in (self.link, self._bell, self._ring):
            part.close()

    def run(self) -> str:
        """Send until the link ends; why it did."""
        try:
            with selectors.DefaultSelector() as both:
                both.register(self._bell, selectors.EVENT_READ)
                both.register(self.link, selectors.EVENT_READ)
                while True:
                    left = self._expires - time.time()
                    if left <= 0:
                        return "its certificate has expired"
                    reason = refusal(self._watch, self._shown)
                    if reason:
                        return reason
                    self._send_pending()
                    if self._finishing:
                        return "the agent ends"
                    ready = {key.fileobj for key, _ in both.select(min(left, LONGEST_WAIT))}
                    if self._bell in ready:
                        self._bell.recv(4096)
                    if self.link in ready and (ended := self._heard()):
                        return ended
        except TimeoutError:
            return f"it took nothing for {STALLED:g} s"
        except (OSError, AgentError) as problem:
            return _reason(problem)
        finally:
            self.discard()

    def _send_pending(self) -> None:
        with self._lock:
            pending, self._pending = self._pending, {}
        self.link.settimeout(STALLED)
        for agent, (sequence, text) in pending.items():
            frame = encode_status(StatusMessage(agent, self.observer, sequence, text))
            self.link.sendall(len(frame).to_bytes(4, "big") + frame)

    def _heard(self) -> str:
        """Why the link ends because of what came from the observer; empty if nothing did."""
        self.link.settimeout(MOMENT)
        try:
            said = self.link.recv(1)
        except TimeoutError:
            return ""  # a record of TLS itself
        return "it sent something, and observers only read" if said else "it has closed the link"

    def wake(self) -> None:
        """Look again at what is to be sent, and whether to go on; from any thread."""
        with suppress(OSError):  # a bell that rings already, or has ended
            self._ring.send(b"!")


def refusal(watch: KeyWatch, der: bytes) -> str:
    """Why a certificate that TLS has verified is not accepted now; empty if it is."""
    found = x509.load_der_x509_certificate(der)
    return watch.trust.refusal(found, common_name_on(found))


def server_context(credentials: Credentials) -> ssl.SSLContext:
    """TLS of a site: TLS 1.3, a certificate of the fleet's authority required, no resumption."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(str(credentials.certificate), str(credentials.key))
    context.load_verify_locations(cafile=str(credentials.ca))
    context.verify_mode = ssl.CERT_REQUIRED
    context.num_tickets = 0
    return context


def _listen(endpoint: Endpoint) -> socket.socket:
    host = endpoint.host.strip("[]")
    family, kind, _, _, address = socket.getaddrinfo(host, endpoint.port, type=socket.SOCK_STREAM)[
        0
    ]
    made = socket.socket(family, kind)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(MOST_LINKS)
        made.settimeout(1.0)
    except OSError:
        made.close()
        raise
    return made


def _reason(problem: Exception) -> str:
    """An error of TLS or of the network, in few words."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return str(problem.verify_message or problem.reason)
    if isinstance(problem, ssl.SSLError):
        return str(problem.reason or "refused").lower().replace("_", " ")
    if isinstance(problem, TimeoutError):
        return "it took too long"
    return str(getattr(problem, "strerror", None) or problem)
