"""Who the agent is: its files, what it guarantees, its neighbours, its keys."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator

from veilsum.agents.doctor.outcomes import CheckResult, ExaminedAgent, failure, ok, warning
from veilsum.agents.ledger import stored_epoch
from veilsum.agents.pki import SOON, check_credentials, describe
from veilsum.agents.release.guarantees import covers_estimates
from veilsum.errors import AgentError

ANYWHERE = ("0.0.0.0", "[::]")


def files(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """Both files were loaded: the agent is a member, and [peers] names neighbours only."""
    manifest = agent.setup.manifest
    yield ok(
        "files",
        f"{agent.name} is one of {len(manifest.members)} members of {manifest.name}, with "
        f"{len(agent.neighbours)} neighbours; manifest {manifest.digest.hex()[:12]}",
    )


def terms(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """What it should guarantee is what an agent may."""
    yield ok("guarantee", str(agent.guarantee))


def membership(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """The epoch is one that the authority signed, or the scenario's where none was rolled out."""
    setup = agent.setup
    setup.check_epoch(stored_epoch(setup.path(setup.config.ledger.path)))
    for note in setup.notes:
        yield warning("membership", note, "have the latest epoch copied here, or remove the line")
    count, epoch = len(setup.manifest.members), setup.manifest.epoch
    how = "as the scenario says" if setup.signed is None else "signed by the authority"
    if setup.signed is None and setup.config.membership is not None and not agent.insecure:
        setup.authority_certificate()  # without it no epoch can ever be adopted
    yield ok("membership", f"epoch {epoch} with {count} members, {how}")


def peers(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """Every neighbour is dialled, or can dial; endpoints can be parsed and verified."""
    config = agent.setup.config
    for peer, text in agent.setup.peers.items():
        with agent.setup.locator.errors_at("peers", peer):
            agent.endpoint(text).check_verifiable(peer)
    with agent.setup.locator.errors_at("listen"):
        listening = [agent.endpoint(text) for text in config.listen]
    waited = [peer for peer in agent.neighbours if peer not in agent.setup.peers]
    names = ", ".join(waited)
    if waited and all(endpoint.port == 0 for endpoint in listening):
        yield failure(
            "peers",
            f"{names} must connect to this agent, and it listens on any free port",
            f"listen on a fixed port, or add {names} to [peers]",
        )
    elif waited and all(endpoint.is_loopback for endpoint in listening) and not agent.insecure:
        yield warning(
            "peers",
            f"{names} must connect to this agent, and it listens on this machine only",
            f'listen = ["tls/0.0.0.0:7447"], or add {names} to [peers]',
        )
    elif waited:
        yield ok("peers", f"connects to {_those(agent, waited)}; {names} must connect to it")
    else:
        yield ok("peers", f"connects to {_those(agent, waited)}")


def _those(agent: ExaminedAgent, waited: list[str]) -> str:
    return ", ".join(peer for peer in agent.neighbours if peer not in waited) or "no one"


def keys(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """The files are there, belong together and to this device, are valid, and the key is private."""
    if agent.insecure:
        yield warning("keys", "without certificates: on this machine only, for experiments")
        return
    credentials = agent.credentials
    if credentials is None:
        yield failure(
            "keys",
            "there is no section [keys], and an agent does not start without certificates",
            'add [keys] with folder = "keys", or say --insecure for a test on this machine',
        )
        return
    check_credentials(credentials, agent.device, agent.now)
    found = describe(credentials, agent.now)
    left = (found.expires - agent.now) / dt.timedelta(days=1)
    if found.expires - agent.now <= SOON:
        yield warning(
            "keys",
            f"the certificate of {agent.device} expires in {left:.0f} days",
            f"have `veilsum keys sign` sign {agent.device}.request once more, and `veilsum keys "
            f"install {agent.device}`; a running agent takes it",
        )
    else:
        yield ok("keys", f"the certificate of {agent.device} is valid for {left:.0f} days")
    yield from _denied(agent)
    signing = credentials.ca.with_name("ca.key")
    if signing.exists():
        yield warning(
            "keys",
            f"{signing} signs certificates and is on this machine",
            "keep it where no agent runs, and remove it here",
        )


def _denied(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """The deny list is the authority's, and this site and its neighbours are not on it."""
    watch = agent.setup.key_watch  # raises if the list cannot be trusted
    if watch is None or not watch.trust.denied.number:
        return
    own = watch.trust.denied.about(agent.device, watch.certificate)
    if own:
        yield failure(
            "keys",
            f"neighbours refuse this site: {own}",
            f"ask the authority; after an exposed key, `veilsum keys request {agent.device} --new-key`",
        )
    names = agent.setup.manifest.certificates
    gone = [peer for peer in agent.neighbours if watch.trust.denied_name(names[peer])]
    if gone:
        yield warning(
            "keys",
            f"the deny list has {', '.join(gone)}, and the scenario has links to it",
            "where the fleet's files are kept: "
            + ", ".join(f"`veilsum members remove {peer}`" for peer in gone)
            + ", then `veilsum members rollout`",
        )


def signing(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """In a masked sum: the signing key is there, private, and the one that all sites pin."""
    if not agent.masked:
        return
    agent.setup.signing_key()  # raises with the reason
    manifest = agent.setup.manifest
    yield ok(
        "signing",
        f"{agent.setup.signing_key_file.name} is the key that is pinned for {agent.name}; the keys of "
        f"all {len(manifest.members)} members are pinned, and the nonce begins with "
        f"{manifest.nonce[:8]}",
    )


def observers(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """Who may read the agent's status; its listener has a port of its own, beside the links'."""
    chosen = agent.setup.config.observers
    if chosen is None:
        return
    agent.setup.publisher(agent.insecure)  # raises with the reason
    where = agent.setup.observers_endpoint
    taken = [text for text in chosen.allow if text in agent.setup.manifest.certificates.values()]
    if where.port and any(
        endpoint.port == where.port for endpoint in map(agent.endpoint, agent.setup.config.listen)
    ):
        yield failure(
            "observers",
            f"statuses and links are both to be on port {where.port}",
            "choose another [observers] listen",
        )
    elif taken:
        yield warning(
            "observers",
            f"{', '.join(taken)} has the name of a member, and a member's certificate is not accepted",
            "allow the name of an observer: `veilsum keys request NAME --observer`",
        )
    else:
        covered = covers_estimates(agent.setup.manifest, agent.guarantee)
        what = "its estimate and how it works" if covered else "how it works, not its estimate"
        yield ok("observers", f"{', '.join(chosen.allow)} may read at {where}: {what}")


def hosts(agent: ExaminedAgent) -> Iterator[CheckResult]:
    """Neighbours that connect find the name that they connect to on the certificate."""
    credentials = None
    with contextlib.suppress(AgentError):  # reported by `keys`
        credentials = agent.credentials
    if credentials is None:
        return
    try:
        named = describe(credentials, agent.now).hosts
    except (OSError, ValueError):  # reported by `keys`
        return
    config = agent.setup.config
    waited = [peer for peer in agent.neighbours if peer not in agent.setup.peers]
    renew = f"`veilsum keys sign {agent.device}.request --host HOST` names one"
    if not named:
        say = failure if waited else warning
        who = ", ".join(waited) if waited else "a neighbour"
        yield say("hosts", f"the certificate names no host, so {who} cannot connect here", renew)
        return
    bound = [agent.endpoint(text).host for text in config.listen]
    absent = [
        host for host in bound if host not in (*ANYWHERE, *named) and host.strip("[]") not in named
    ]
    if absent:
        yield warning(
            "hosts",
            f"it listens on {', '.join(absent)}, and its certificate names {', '.join(named)}",
            f"neighbours must connect to a name on the certificate; {renew}",
        )
    else:
        yield ok("hosts", f"neighbours reach it as {', '.join(named)}")
