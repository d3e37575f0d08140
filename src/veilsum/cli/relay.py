"""veilsum relay: join sites that cannot reach each other; what passes stays encrypted end to end."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veilsum.cli.guard import Debug, guarded
from veilsum.cli.options import KeysFolder

if TYPE_CHECKING:
    from veilsum.agents.relay import Relay
    from veilsum.agents.runtime import Log

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name on the relay's certificate.")]
Listen = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="Where sites connect, such as 0.0.0.0:7450.")
]
Members = Annotated[
    list[str] | None,
    typer.Option(
        "--member",
        help="The name on the certificate of a site that may use it; again for each. By default every "
        "member of the authority.",
    ),
]
Level = Annotated[str, typer.Option("--log", help="debug, info, warning or error.")]


def relay(
    name: Name,
    listen: Listen = "0.0.0.0:7450",
    keys: KeysFolder = None,
    member: Members = None,
    log: Level = "info",
    debug: Debug = False,
) -> None:
    """Run a relay until it is stopped: it joins two sites' outgoing connections and copies bytes.

    Sites name it in the table relay of agent.toml. It sees who is joined with whom, when, and how many bytes
    pass; the links' own TLS runs through it, and it holds no key of them.
    """
    with guarded(debug):
        from veilsum.agents.pki import Credentials, KeyWatch, check_credentials
        from veilsum.agents.pki.denied import FILE
        from veilsum.agents.relay import Relay
        from veilsum.agents.runtime import Log
        from veilsum.agents.transport.zenoh_config import Endpoint

        folder = keys or Path("keys")
        credentials = Credentials(folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}.key")
        check_credentials(credentials, name)
        lines = Log(sys.stderr, log)
        listed, kept = folder / FILE, folder / f"{name}.{FILE}"
        watch = KeyWatch(credentials, name, denied=listed, kept=kept)
        watch.notify = lambda kind, text: lines.write(kind, name, text)
        made = Relay(
            Endpoint.parse(listen, insecure=False),
            credentials,
            member or (),
            lambda kind, who, text: lines.write(kind, who, text),
            watch,
        )
        asyncio.run(_until_stopped(made, lines, name))


async def _until_stopped(made: Relay, lines: Log, name: str) -> None:
    """Serve until SIGTERM or SIGINT."""
    serving = asyncio.ensure_future(
        made.serve(lambda: lines.write("relay", name, f"listens on port {made.port}"))
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, serving.cancel)
    try:
        await serving
    except asyncio.CancelledError:
        lines.write(
            "stopped", name, f"{made.carried:,} bytes were carried over links that have ended"
        )
