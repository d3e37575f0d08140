"""The machine: disk, clock, versions, ports, and the way to the neighbours."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from veilsum import __version__
from veilsum._extras import install_command
from veilsum.agents.doctor.outcomes import CheckResult, ExaminedAgent, failure, ok, warning
from veilsum.agents.outputs import check_outputs
from veilsum.agents.transport.zenoh_config import Endpoint, link_problem
from veilsum.errors import AgentError

FULL, SCARCE = 16 << 20, 256 << 20  # bytes
EARLIEST = 2025  # a clock before this was never set
CONNECT_TIMEOUT = 3.0
LEAST_ZENOH = (1, 10)
PACKAGES = ("eclipse-zenoh", "cryptography")


def disk(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """The folder of the ledger can be written to and has room."""
    folder = agent.ledger.parent
    place = agent.setup.locator.at("ledger", "path")
    if not folder.is_dir():
        yield failure("disk", f"{place}: there is no folder {folder}", "make it first")
        return
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        yield failure(
            "disk",
            f"{place}: {folder} cannot be written to: {problem.strerror}",
            "give the agent's user the right to write there, or choose another folder",
        )
        return
    free = shutil.disk_usage(folder).free
    text = f"{free / 2**20:,.0f} MiB are free in {folder}"
    if free < FULL:
        yield failure("disk", text, "make room: a ledger that cannot grow stops the agent")
    elif free < SCARCE:
        yield warning("disk", text, "make room before the agent runs for long")
    else:
        yield ok("disk", text)


def outputs(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """The status and the metrics replace no other file."""
    check_outputs(agent.setup, agent.metrics_file)
    files = [agent.setup.status_file, *([agent.metrics_file] if agent.metrics_file else [])]
    verb = "replaces" if len(files) == 1 else "replace"
    yield ok("outputs", f"{' and '.join(file.name for file in files)} {verb} no other file")


def clock(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """The clock is set, and kept by a time server as far as the machine says."""
    now = f"{agent.now:%Y-%m-%d %H:%M} UTC"
    if agent.now.year < EARLIEST:
        yield failure(
            "clock", f"the clock says {now}", "set the clock: certificates and budgets need it"
        )
        return
    kept = synchronised()
    if kept is None:
        yield ok("clock", f"{now}; whether a time server keeps it is not known")
    elif kept:
        yield ok("clock", f"{now}, kept by a time server")
    else:
        yield warning(
            "clock",
            f"{now}, and no time server keeps it",
            "turn on NTP: certificates, schedules and budgets by the calendar need the time",
        )


def synchronised() -> bool | None:
    """Whether a time server keeps the clock; None where the machine does not say."""
    program = shutil.which("timedatectl")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "show", "--property=NTPSynchronized", "--value"],
            capture_output=True, text=True, timeout=5, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {"yes": True, "no": False}.get(done.stdout.strip())


def versions(agent: ExaminedAgent) -> Iterator[CheckResult]:  # noqa: ARG001 - of this machine
    """The packages that agents need are there and new enough."""
    found = {"python": platform.python_version(), "veilsum": __version__}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            yield failure(
                "versions", f"{package} is missing", f"install it: {install_command('agents')}"
            )
            return
    zenoh = tuple(int(part) for part in found["eclipse-zenoh"].split(".")[:2])
    text = ", ".join(f"{name} {version}" for name, version in found.items())
    if zenoh < LEAST_ZENOH:
        yield failure("versions", text, "upgrade it: pip install --upgrade eclipse-zenoh")
    else:
        yield ok("versions", text)


def ports(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """What the agent listens on is an address of this machine, and free."""
    for key, read in _listening(agent):
        try:
            endpoint = read()
        except AgentError:
            return  # reported by `peers`, or `observers`
        try:
            _bind(endpoint)
        except OSError as problem:
            yield failure(
                "ports",
                f"{agent.setup.locator.at(key)}: cannot listen on {endpoint}: "
                f"{problem.strerror or problem}",
                "stop what uses it (perhaps this agent runs already), or choose another port or an "
                "address of this machine",
            )
        else:
            yield ok("ports", f"{endpoint} is free")


def _listening(agent: ExaminedAgent) -> Iterator[tuple[str, Callable[[], Endpoint]]]:
    """Each address that the agent listens on: where it is written, and how it is read."""
    for text in agent.setup.config.listen:
        yield "listen", partial(agent.endpoint, text)
    if agent.setup.config.observers is not None and not agent.insecure:
        yield "observers", lambda: agent.setup.observers_endpoint


def _bind(endpoint: Endpoint) -> None:
    host = endpoint.host.strip("[]")
    places = socket.getaddrinfo(host, endpoint.port, type=socket.SOCK_STREAM)
    family, kind, _, _, address = places[0]
    with socket.socket(family, kind) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)


def reachable(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """Neighbours answer, present their own certificates, and accept ours."""
    peers = agent.setup.peers
    if agent.offline or not peers:
        return
    with ThreadPoolExecutor(max_workers=8) as several:
        yield from several.map(lambda item: _reached(agent, *item), peers.items())


def _reached(agent: ExaminedAgent, peer: str, text: str) -> CheckResult:
    place = agent.setup.locator.at("peers", peer)
    try:
        endpoint, credentials = agent.endpoint(text), agent.credentials
    except AgentError as problem:
        return failure("reachable", f"{place}: not tried: {problem}")
    host = endpoint.host.strip("[]")
    try:
        socket.create_connection((host, endpoint.port), CONNECT_TIMEOUT).close()
    except socket.gaierror as problem:
        return failure(
            "reachable",
            f"{place}: there is no address for {host}: {problem.strerror}",
            "check the name, and that this machine can resolve it",
        )
    except OSError as problem:
        return warning(
            "reachable",
            f"{place}: {endpoint} does not answer: {problem.strerror or problem}",
            "start that agent, or check the address and the firewalls; this one waits for it",
        )
    if credentials is None:
        return ok("reachable", f"{peer} answers at {endpoint}")
    device = agent.setup.manifest.certificates[peer]
    trouble = link_problem(device, endpoint, credentials)
    if trouble:
        return failure(
            "reachable",
            f"{place}: {trouble}",
            "check the address, and the certificates of both: `veilsum keys list`",
        )
    return ok("reachable", f"{peer} answers at {endpoint} with its certificate")
