"""The relay: admits members by certificate, joins those that call with those that await."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter, deque
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, NamedTuple

from cryptography import x509

from veilsum.agents.observers.publisher import refusal, server_context
from veilsum.agents.pki import Credentials, KeyWatch
from veilsum.agents.pki.certificates import common_name_on, member_of
from veilsum.agents.pki.denied import FILE
from veilsum.agents.relay.exchange import (
    CHUNK,
    HANDSHAKE,
    MOST_LINE,
    PULSE,
    Request,
    join,
    notice_loss,
    read_line,
)
from veilsum.agents.transport.zenoh_config import Endpoint
from veilsum.errors import AgentError

MOST_LINKS = 4096  # connections in all
MOST_OF_ONE = 64  # of one name, whether they await, call or are joined
CALL_WAITS = 5.0  # seconds in which a called site may come back
REVIEW = 1.0  # seconds between two looks at who may still be connected

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Report = Callable[[str, str, str], None]  # kind, name, text


class Waiting:
    """A connection of a site that awaits a call.

    Attributes
    ----------
    streams : tuple
        To and from the site.
    called : Future
        Somebody has called.
    free : Future
        Nobody reads the connection any more, and whoever called copies from now on; False if it has
        ended, or said something before it may.
    finished : Future
        The copying has ended.
    """

    def __init__(self, streams: Streams) -> None:
        """Nobody has called."""
        loop = asyncio.get_running_loop()
        self.streams = streams
        self.called: asyncio.Future[None] = loop.create_future()
        self.free: asyncio.Future[bool] = loop.create_future()
        self.finished: asyncio.Future[None] = loop.create_future()


class RefusedSiteError(AgentError):
    """Who connected may not use the relay; `name` is on its certificate."""

    def __init__(self, name: str, reason: str) -> None:
        """With the reason as its text."""
        super().__init__(reason)
        self.name = name


class Shown(NamedTuple):
    """The certificate of a connection, and by which deny list it was accepted."""

    name: str
    certificate: bytes
    ends: float
    number: int


class Relay:
    """Joins the connections of sites; holds no key of what passes.

    Parameters
    ----------
    endpoint : Endpoint
        Where it listens.
    credentials : Credentials
        Its certificate, of the fleet's authority, and key.
    members : collection of str
        The names on the certificates of those who may use it; empty: every member's of the authority.
    report : callable
        Takes the kind, the name and the text of each line of its log.
    watch : KeyWatch, optional
        Follows its key files and the deny list: sites are held to it and to the end of their
        certificates. By default one that looks for the list beside the authority's certificate.

    Attributes
    ----------
    port : int
        Where it listens, once it does.
    carried : int
        Bytes that were copied over links that have ended.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        credentials: Credentials,
        members: Collection[str] = (),
        report: Report = lambda _kind, _name, _text: None,
        watch: KeyWatch | None = None,
    ) -> None:
        """Nothing is open yet."""
        self._endpoint, self._credentials = endpoint, credentials
        self._context = server_context(credentials)
        self._watch = watch or _watch_of(credentials)
        self._shown: dict[asyncio.StreamWriter, Shown] = {}  # of all who are connected
        self._members, self._report = frozenset(members), report
        self._waiting: dict[str, deque[Waiting]] = {}  # of names that await at this moment
        self._arrived = asyncio.Condition()
        self._open: Counter[str] = Counter()
        self.port, self.carried = 0, 0

    async def serve(self, ready: Callable[[], None] = lambda: None) -> None:
        """Listen until cancelled.

        Parameters
        ----------
        ready : callable
            Called once it listens.
        """
        host = self._endpoint.host.strip("[]")
        server = await asyncio.start_server(
            self._accept, host, self._endpoint.port, ssl=self._context, limit=CHUNK,
            ssl_handshake_timeout=HANDSHAKE,
        )  # fmt: skip
        self.port = server.sockets[0].getsockname()[1]
        self._watch.renewed.append(self._renew)
        self._watch.start()
        reviews = asyncio.ensure_future(self._review())
        try:
            async with server:
                ready()
                await server.serve_forever()
        finally:
            reviews.cancel()
            self._watch.close()

    def _renew(self) -> None:
        """Show the new certificate to those who connect from now on."""
        chain = str(self._credentials.certificate), str(self._credentials.key)
        try:
            self._context.load_cert_chain(*chain)
            self._context.load_verify_locations(cafile=str(self._credentials.ca))
        except (OSError, ValueError) as problem:
            self._report("certificate", "relay", f"the new one cannot be served: {problem}")

    async def _review(self) -> None:
        """Close the connections of those whose certificate has ended, or was denied since."""
        while True:
            await asyncio.sleep(REVIEW)
            number, now = self._watch.trust.denied.number, self._watch.wall()
            for writer, shown in list(self._shown.items()):
                if now < shown.ends and number == shown.number:
                    continue
                self._shown[writer] = shown._replace(number=number)
                reason = refusal(self._watch, shown.certificate)
                if reason:
                    self._report("refused", shown.name, reason)
                    writer.transport.abort()

    def _admit(self, writer: asyncio.StreamWriter) -> str:
        """The name of who has connected; raises `AgentError` unless it may use this relay."""
        link: ssl.SSLObject = writer.get_extra_info("ssl_object")
        shown = link.getpeercert(True) or b""
        name, number = member_of(shown) or "", self._watch.trust.denied.number
        reason = refusal(self._watch, shown) if shown else ""
        if reason and name:
            raise RefusedSiteError(name, reason)
        if not name or (self._members and name not in self._members):
            raise RefusedSiteError(name, "its certificate is of no member that may use this relay")
        if sum(self._open.values()) >= MOST_LINKS or self._open[name] >= MOST_OF_ONE:
            raise RefusedSiteError(name, "it has too many connections, or all together have")
        ends = x509.load_der_x509_certificate(shown).not_valid_after_utc.timestamp()
        self._shown[writer] = Shown(name, shown, ends, number)
        return name

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        notice_loss(writer)
        name = ""
        try:
            name = self._admit(writer)
            self._open[name] += 1
            try:
                await self._serve_one(name, (reader, writer))
            finally:
                self._open[name] -= 1
                self._open += Counter()  # without the names that have none left
        except (AgentError, TimeoutError) as problem:
            text = str(problem) or "it took too long"
            who = problem.name if isinstance(problem, RefusedSiteError) else name
            self._report("refused", who or "unknown", text)
            with suppress(OSError):
                writer.write(f"error {text}\n".encode()[:MOST_LINE])
                await asyncio.wait_for(writer.drain(), HANDSHAKE)
        except OSError:
            pass  # it went away
        finally:
            self._shown.pop(writer, None)
            writer.close()

    async def _serve_one(self, name: str, streams: Streams) -> None:
        async with asyncio.timeout(HANDSHAKE):
            request = Request.parse(await read_line(streams[0]))
        if request.name:
            await self._call(name, request.name, streams)
        else:
            await self._await(name, streams)

    async def _await(self, name: str, streams: Streams) -> None:
        """Hold a connection until somebody calls, and then until the caller has copied."""
        waiting = Waiting(streams)
        async with self._arrived:
            self._waiting.setdefault(name, deque()).append(waiting)
            self._arrived.notify_all()
        said = asyncio.ensure_future(streams[0].read(1))  # nothing may come before "ok"
        try:
            while not (waiting.called.done() or said.done()):
                futures: list[asyncio.Future[Any]] = [waiting.called, said]
                done, _ = await asyncio.wait(
                    futures, timeout=PULSE, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    streams[1].write(b"\n")
                    await streams[1].drain()
        finally:
            self._forget(name, waiting)
            early = said.done()
            said.cancel()
            await asyncio.gather(said, return_exceptions=True)
            if not waiting.free.done():
                waiting.free.set_result(not early)
        if waiting.called.done():
            await waiting.finished

    def _forget(self, name: str, waiting: Waiting) -> None:
        held = self._waiting.get(name, deque())
        with suppress(ValueError):
            held.remove(waiting)
        if not held:
            self._waiting.pop(name, None)

    async def _call(self, name: str, wanted: str, streams: Streams) -> None:
        waiting = await self._take(wanted)
        if waiting is None:
            raise AgentError(f"{wanted} does not await anybody here")
        waiting.called.set_result(None)
        try:
            if not await waiting.free:
                raise AgentError(f"the connection of {wanted} has ended")
            for _, writer in (streams, waiting.streams):
                writer.write(b"ok\n")
                await writer.drain()
            self._report("joined", name, f"with {wanted}")
            carried = sum(await join(streams, waiting.streams))
            self.carried += carried
            self._report("ended", name, f"with {wanted} after {carried:,} bytes")
        finally:
            waiting.finished.set_result(None)

    async def _take(self, wanted: str) -> Waiting | None:
        """A connection that awaits, now or soon: a site replaces those that were used."""
        async with self._arrived:
            with suppress(TimeoutError):
                async with asyncio.timeout(CALL_WAITS):
                    await self._arrived.wait_for(lambda: wanted in self._waiting)
            held = self._waiting.get(wanted)
            if not held:
                return None
            taken = held.pop()  # the latest: of those that are lost and do not know it, the fewest
            if not held:
                del self._waiting[wanted]
            return taken


def _watch_of(credentials: Credentials) -> KeyWatch:
    """Follows the files, and the deny list beside the authority's certificate."""
    found = x509.load_pem_x509_certificate(credentials.certificate.read_bytes())
    return KeyWatch(credentials, common_name_on(found), denied=credentials.ca.with_name(FILE))
