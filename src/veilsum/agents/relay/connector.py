"""A site's end of a relay: local ports for its links, and outgoing connections to the relay.

    own zenoh ──> 127.0.0.1:port ──> relay, "call NAME"         for each neighbour behind the relay
    relay, "await" ──> 127.0.0.1:listen ──> own zenoh           a few, so that neighbours can call

The link's TLS passes both unopened. Its certificate is verified for the address that zenoh connects to,
so a site behind a relay has 127.0.0.1 on its certificate; that it is this neighbour and no other is
what the common name says, as on every link.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from veilsum.agents.observers.publisher import refusal
from veilsum.agents.observers.watcher import client_context
from veilsum.agents.pki import Credentials, KeyWatch
from veilsum.agents.pki.certificates import member_of
from veilsum.agents.relay.exchange import (
    CHUNK,
    HANDSHAKE,
    PULSE,
    Request,
    join,
    notice_loss,
    read_line,
)
from veilsum.agents.transport.zenoh_config import Endpoint
from veilsum.errors import AgentError

LOOPBACK = "127.0.0.1"  # which the certificate of a site behind a relay must have
AWAITING = 4  # connections that await a call
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0  # seconds between attempts
SILENT = 3 * PULSE  # seconds without a pulse after which a connection is given up
STARTING = 10.0  # seconds for local ports to open

Report = Callable[[str], None]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class RelayConnector:
    """Keeps one site connected to a relay, in a thread of its own.

    Parameters
    ----------
    relay : Endpoint
        Where the relay listens.
    credentials : Credentials
        The site's certificate and key.
    own : Endpoint or None
        Where the site's links listen on this machine; None: nobody can call it.
    peers : mapping of str to str
        The neighbours to call: the name on the certificate of each, by label.
    members : mapping of str to str
        The name on every member's certificate, by label: a relay is none of them.
    report : callable
        Takes a line for the log when the relay cannot be used, once for each reason; it may be set
        later.
    watch : KeyWatch, optional
        Knows the deny list, to which the relay's certificate is held too.

    Attributes
    ----------
    ports : dict of str to int
        The local port of each neighbour to call, by label, once started.
    """

    def __init__(
        self,
        relay: Endpoint,
        credentials: Credentials,
        own: Endpoint | None,
        peers: Mapping[str, str],
        members: Mapping[str, str],
        report: Report | None = None,
        watch: KeyWatch | None = None,
    ) -> None:
        """Nothing is open yet."""
        self._relay, self._credentials, self._watch = relay, credentials, watch
        client_context(credentials)  # raises if the files cannot be used
        self._own, self._peers = own, dict(peers)
        self._members, self.report = frozenset(members.values()), report
        self.ports: dict[str, int] = {}
        self._reported = ""
        self._links: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._started = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True, name="veilsum-relay")

    def start(self) -> None:
        """Open the local ports, and connect in the background.

        Raises
        ------
        AgentError
            If a local port cannot be opened.
        """
        self._thread.start()
        self._started.wait(STARTING)
        if self._problem is not None or len(self.ports) < len(self._peers):
            raise AgentError(f"no local port for the relay could be opened: {self._problem}")

    def close(self) -> None:
        """Close all connections; may be called twice, and before the start."""
        loop, main = self._loop, self._main
        if loop is None or main is None or not self._thread.is_alive():
            return
        with suppress(RuntimeError):  # the loop has just ended
            loop.call_soon_threadsafe(main.cancel)
        self._thread.join(STARTING)

    def _work(self) -> None:
        try:
            asyncio.run(self._run())
        except asyncio.CancelledError:
            pass
        except OSError as problem:
            self._problem = problem
        finally:
            self._started.set()

    async def _run(self) -> None:
        self._loop, self._main = asyncio.get_running_loop(), asyncio.current_task()
        servers = []
        try:
            for label, name in self._peers.items():
                server = await self._local(name)
                servers.append(server)
                self.ports[label] = server.sockets[0].getsockname()[1]
            self._started.set()
            count = AWAITING if self._own is not None else 0
            await asyncio.gather(*(self._keep_awaiting() for _ in range(count)), _for_ever())
        finally:
            for server in servers:
                server.close()

    async def _local(self, name: str) -> asyncio.Server:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                away = await self._connect(Request(name))
                await join((reader, writer), away)
            except (AgentError, OSError, TimeoutError) as problem:
                self._say(f"{name} cannot be called: {_reason(problem)}")
            finally:
                writer.transport.abort()

        return await asyncio.start_server(accept, LOOPBACK, 0)

    async def _keep_awaiting(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                away = await self._connect(Request())
                pause = FIRST_PAUSE
                link = asyncio.ensure_future(self._serve(away))
                self._links.add(link)
                link.add_done_callback(self._links.discard)
                continue
            except (AgentError, OSError, TimeoutError) as problem:
                self._say(f"the relay at {self._relay} cannot be used: {_reason(problem)}")
            await asyncio.sleep(pause * random.uniform(0.75, 1.25))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _serve(self, away: Streams) -> None:
        """A neighbour has called: join it with the own links."""
        assert self._own is not None
        try:
            near = await asyncio.open_connection(LOOPBACK, self._own.port)
        except OSError as problem:
            away[1].transport.abort()
            self._say(f"a neighbour called, and no link listens at {self._own}: {_reason(problem)}")
            return
        await join(near, away)

    async def _connect(self, request: Request) -> Streams:
        """A connection to the relay that is joined with another site's."""
        host = self._relay.host.strip("[]")
        context = client_context(self._credentials)  # as it is now: it may have been renewed
        async with asyncio.timeout(HANDSHAKE):
            reader, writer = await asyncio.open_connection(
                host, self._relay.port, ssl=context, server_hostname=host, limit=CHUNK,
                ssl_handshake_timeout=HANDSHAKE,
            )  # fmt: skip
        try:
            notice_loss(writer)
            self._check_relay(writer.get_extra_info("ssl_object"))
            writer.write(request.line())
            await writer.drain()
            while True:
                async with asyncio.timeout(SILENT):
                    line = await read_line(reader)
                if line == b"ok\n":
                    self._reported = ""
                    return reader, writer
                if line != b"\n":
                    words = line.decode("utf-8", "replace").strip()
                    raise AgentError(f"it says {words!r}")
        except BaseException:
            writer.transport.abort()
            raise

    def _check_relay(self, link: ssl.SSLObject) -> None:
        shown = link.getpeercert(True) or b""
        name = member_of(shown) or "unknown"
        denied = "" if self._watch is None else refusal(self._watch, shown)
        if denied:
            raise AgentError(f"the certificate that it presents: {denied}")
        if name in self._members:
            raise AgentError(
                f"it presents the certificate of the member {name!r}; a relay has one of its own"
            )

    def _say(self, text: str) -> None:
        if self.report is not None and text != self._reported:
            self._reported = text
            self.report(text)


async def _for_ever() -> None:
    await asyncio.Event().wait()


def _reason(problem: BaseException) -> str:
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {problem.verify_message or problem.reason}"
    if isinstance(problem, TimeoutError):
        return "it does not answer"
    if isinstance(problem, ssl.SSLError):
        return str(problem.reason or "refused").lower().replace("_", " ")
    return str(getattr(problem, "strerror", None) or problem)
