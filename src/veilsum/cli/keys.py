"""veilsum keys: a small certificate authority for the agents of one network."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from veilsum.cli.guard import AsJson, Debug, existing, guarded, print_json, usage_errors
from veilsum.errors import AgentError, CommandError

if TYPE_CHECKING:
    from veilsum.agents.config import Setup
    from veilsum.agents.pki import Authority, DirectoryEntry, KeyRequest

FILE, DENIED = "signing-keys.toml", "denied.json"
SHOWN = 16  # digits of a fingerprint
TAKEN = 20.0  # seconds in which a running agent takes a request

keys = typer.Typer(
    name="keys",
    help="Make, sign and list the keys and certificates with which agents authenticate one another.",
    no_args_is_help=True,
)

Directory = Annotated[Path, typer.Option("--dir", metavar="DIR", help="The authority's directory.")]
Site = Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where this site's keys are.")]
Days = Annotated[float, typer.Option(help="How long the certificates are valid.")]
Host = Annotated[
    list[str] | None,
    typer.Option(metavar="HOST|ADDRESS", help="Where neighbours reach it; may be repeated."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]
Observer = Annotated[
    bool,
    typer.Option("--observer", help="For one who only reads statuses, with `veilsum watch`."),
]


@keys.command()
def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR")] = Path("keys"),
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Make an authority in DIR: a key that signs, and its certificate for every device."""
    with guarded(debug):
        from veilsum.agents.pki import Authority

        Authority.create(directory, force=force)
        typer.echo(f"{directory}/ca.key signs certificates: keep it here, and a copy offline.")
        typer.echo(f"{directory}/ca.pem is for every device.")
        typer.echo(
            f"Next: veilsum keys sign NAME.request --dir {directory} --host ADDRESS, of a site that "
            "made its keys with veilsum keys request NAME"
        )


@keys.command()
def issue(
    names: Annotated[list[str], typer.Argument(metavar="NAME...")],
    directory: Directory = Path("keys"),
    days: Days = 90,
    host: Host = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="A new certificate, with the key and hosts of before.")
    ] = False,
    new_key: Annotated[
        bool, typer.Option("--new-key", help="With --renew: another key, as after an exposure.")
    ] = False,
    observer: Observer = False,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """For tests and one machine: make a key here and a certificate for each device.

    A key that is made here has to be carried to its site: there, use request, sign and install.
    """
    with guarded(debug):
        from veilsum.agents.pki import Authority, Role, check_request

        with usage_errors():
            check_request(names, host or (), days)
        authority, role = Authority.load(directory), Role.OBSERVER if observer else Role.MEMBER
        for name in names:
            made = authority.issue(
                name, host or (), days, renew=renew, new_key=new_key, force=force, role=role
            )
            typer.echo(f"{name}: {made.certificate} and {made.key} (private), with {made.ca}")
            if new_key and role is Role.MEMBER:
                typer.echo(
                    f"{name}: {name}.secret (private) goes with the new key: its ledger is bound to it"
                )
            (issued,) = (e for e in authority.entries() if e.name == name)
            if not issued.hosts and not observer:
                typer.echo(
                    f"{name}: no --host, so it can connect to others, and not be connected to"
                )


@keys.command()
def request(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    directory: Site = Path("keys"),
    label: Annotated[
        str | None,
        typer.Option(help="The member, where it is not the name.", show_default="the name"),
    ] = None,
    observer: Observer = False,
    new_key: Annotated[
        bool,
        typer.Option("--new-key", help="Replace the TLS key, which takes effect with install."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Make new keys in any case.")] = False,
    debug: Debug = False,
) -> None:
    """On a site: make its TLS and signing keys, and a request with their public halves.

    With --observer: the TLS key of one who reads statuses, and takes part in nothing.
    """
    with guarded(debug):
        from veilsum.agents.pki import make_observer_request, make_request

        if observer and label is not None:
            raise CommandError("--label is of a member; an observer has a name only")
        if observer:
            made, path = make_observer_request(name, directory, new_key=new_key, force=force)
            typer.echo(f"{path} is public: send it to the authority. The key stays in {directory}.")
        else:
            made, path = make_request(name, directory, label, new_key=new_key, force=force)
            typer.echo(f"{path} is public: send it to the authority. The keys stay in {directory}.")
            typer.echo(f"Signing key of {made.label}: {_short(made.signing_key)}")
        typer.echo(
            f"Fingerprint of the request, to compare over another channel: {made.fingerprint}"
        )
        place = "" if directory == Path("keys") else f" --dir {shlex.quote(str(directory))}"
        following = f"veilsum keys install {shlex.quote(name)} --from FOLDER{place}"
        typer.echo(f"Next, with what comes back: {following}")


@keys.command()
def sign(
    requests: Annotated[list[Path], typer.Argument(metavar="NAME.request...")],
    directory: Directory = Path("keys"),
    days: Days = 90,
    host: Host = None,
    hosts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A watch file: each site has the host of its address there.",
        ),
    ] = None,
    fingerprint: Annotated[
        str | None,
        typer.Option(help="What the site read out; a request with another is refused."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace another device, or a listed signing key.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Sign the requests of sites, or renew: certificates, and the list of signing keys."""
    with guarded(debug):
        from veilsum.agents.pki import Authority, KeyRequest, Role, check_request

        if host and hosts:
            raise CommandError("--host for one site, or --hosts for those of a file; not both")
        listed = {} if hosts is None else _hosts(hosts)
        with usage_errors():
            check_request((), [*(host or ()), *listed.values()], days)
        authority = Authority.load(directory)
        read = [KeyRequest.read(path) for path in requests]
        _compare(read, fingerprint)
        for found in read:
            reached = [listed[found.label]] if found.label in listed else host or ()
            made = authority.sign(found, reached, days, force=force)
            if found.role is Role.OBSERVER:
                typer.echo(
                    f"{found.name}: {made}, of an observer; sites allow it with [observers] allow = "
                    f'["{found.name}"]'
                )
            else:
                typer.echo(
                    f"{found.name}: {made}; signing key of {found.label} "
                    f"{_short(found.signing_key)} in {made.parent / FILE}"
                )
                (issued,) = (e for e in authority.entries() if e.name == found.name)
                if not issued.hosts:  # a renewal keeps those of before
                    where = f"{hosts} has no [sites] {found.label}" if hosts else "no --host"
                    typer.echo(
                        f"{found.name}: {where}, so it can connect to others, and not be connected to"
                    )
            typer.echo(f"{found.name}: fingerprint of the request {found.fingerprint}")
        compare = "" if fingerprint else "Compare the fingerprints with the sites. "
        count = len(authority.signing_keys())
        typer.echo(f"{compare}Send each site its .pem and ca.pem.")
        if all(found.role is Role.OBSERVER for found in read):
            return
        typer.echo(
            f"{directory / FILE} lists {count} signing key{'s' if count != 1 else ''} so far. When "
            "the last site of a masked sum has signed, send it to all, to be put beside the scenario."
        )


def _hosts(path: Path) -> dict[str, str]:
    """The host of each site of a file with [sites]: a watch file, or one that has that table alone."""
    try:
        sites = tomllib.loads(path.read_text(encoding="utf-8"))["sites"]
        found = {
            str(label): urlsplit(f"//{at.partition('/')[2]}").hostname or ""
            for label, at in sites.items()
        }
    except OSError as problem:
        raise CommandError(f"cannot read {path}: {problem.strerror}; check --hosts") from None
    except (ValueError, KeyError, AttributeError):
        found = {"": ""}
    if not all(found.values()):
        raise CommandError(
            f"{path} has no addresses of sites: expected [sites] with lines such as "
            'north = "tls/north.example:7447"'
        )
    return found


def _short(public: str) -> str:
    """A public signing key as `keys list` shows it."""
    from veilsum.agents.pki import fingerprint_of

    return fingerprint_of(public)[:SHOWN]


def _compare(requests: list[KeyRequest], stated: str | None) -> None:
    """Refuse a request that is not the one whose fingerprint was read out."""
    if stated is None:
        return
    if len(requests) > 1:
        raise CommandError("--fingerprint is for one request; sign them one by one")
    (found,) = requests
    if "".join(stated.split()).lower() != "".join(found.fingerprint.split()):
        raise AgentError(
            f"the request of {found.name} has the fingerprint {found.fingerprint}, and the site read "
            "out another: nothing was signed; have it sent once more over another channel"
        )


@keys.command()
def install(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    source: Annotated[
        Path, typer.Option("--from", metavar="FOLDER", help="Holds ca.pem and NAME.pem.")
    ],
    directory: Site = Path("keys"),
    force: Annotated[bool, typer.Option("--force", help="Accept another authority.")] = False,
    debug: Debug = False,
) -> None:
    """On a site: check what the authority sent, and put it beside the keys."""
    with guarded(debug):
        from veilsum.agents.pki import install as put
        from veilsum.agents.pki import own_signing_keys

        made = put(name, source, directory, force=force)
        typer.echo(f"{made.certificate} and {made.ca} fit {made.key}.")
        for label, public in own_signing_keys(directory).items():
            typer.echo(f"Signing key of {label}: {_short(public)}")


@keys.command()
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    directory: Directory = Path("keys"),
    old: Annotated[
        bool, typer.Option("--old", help="Only the keys it had before its present certificate.")
    ] = False,
    serial: Annotated[
        str, typer.Option(metavar="HEX", help="Only the certificate with this number.")
    ] = "",
    reason: Annotated[str, typer.Option(help="Why; everybody can read it.")] = "",
    observer: Annotated[
        bool, typer.Option("--observer", help="An observer that has no certificate here.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Deny a name that this authority knows nothing of.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Deny a member or an observer for good, or some of its certificates; sign the deny list."""
    with guarded(debug):
        from veilsum.agents.pki import Authority, Role

        role = Role.OBSERVER if observer else None
        authority = Authority.load(directory)
        if not (force or observer or serial or (directory / f"{name}.pem").exists()):
            _check_known(authority, name)
        made = authority.revoke(name, old=old, serial=serial, reason=reason, role=role)
        typer.echo(f"{directory / DENIED} is deny list {made.number}: {len(made.entries)} entries.")
        typer.echo(
            "Send it to all sites, to be put beside their ca.pem (or where [keys] denied says); running "
            "agents take it within seconds, close the links of who is denied, and keep it."
        )
        if not (old or serial or observer):
            typer.echo(
                f"A member is then taken out of the next epoch: veilsum members remove {name}"
            )


def _check_known(authority: Authority, name: str) -> None:
    """A denial cannot be taken back, and one of a mistyped name denies nobody."""
    from veilsum.agents.pki.files import check_name

    check_name(name)
    known = sorted({row["name"].removeprefix("observer:") for row in authority.issued()})
    if name not in known:
        raise AgentError(
            f"this authority never signed for {name}, and nothing was denied; it signed for "
            f"{', '.join(known) or 'nobody'}; --force denies the name all the same"
        )


@keys.command()
def denied(
    file: Annotated[Path, typer.Argument(metavar="FILE")] = Path("keys") / "denied.json",
    ca: Annotated[
        Path | None, typer.Option(help="The authority's certificate.", show_default="beside FILE")
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Check the signature of a deny list, and show what is on it."""
    with guarded(debug):
        from veilsum.agents.pki import DenyList
        from veilsum.agents.screens.tables import console, table

        found = DenyList.read(file, ca or file.with_name("ca.pem"))
        if as_json:
            entries = [entry._asdict() for entry in found.entries]
            print_json({"number": found.number, "entries": entries})
            return
        typer.echo(f"deny list {found.number}, signed by the authority")
        rows = [
            (entry.name, entry.kind, entry.value[:40], entry.since, entry.reason or "-")
            for entry in found.entries
        ]
        console().print(table(("name", "denied by", "value", "since", "reason"), rows))


@keys.command()
def unproved(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A neighbour that was rolled back.")],
    file: Annotated[
        Path, typer.Argument(metavar="AGENT", help="The file of the agent on this site, in TOML.")
    ] = Path("agent.toml"),
    debug: Debug = False,
) -> None:
    """On a site: hear a neighbour that went back to a version which proves no certificate."""
    with guarded(debug):
        from veilsum.agents.config import Setup
        from veilsum.agents.ledger.lock import is_open
        from veilsum.agents.pki.unproved import ask, request_path, wait_until_taken

        setup = Setup.load(existing(file, "agent's file"))
        ledger, agent = setup.path(setup.config.ledger.path), setup.config.name
        device, path = _neighbour(setup, name), request_path(ledger)
        if not is_open(ledger):
            raise AgentError(
                f"{agent} does not run, and nothing is to be done: an agent that starts hears "
                f"{name} as it comes"
            )
        trust = None if setup.key_watch is None else setup.key_watch.trust
        if trust is None or trust.must_prove(device) or trust.denied_name(device):
            why = (
                "[keys] is not set" if trust is None else f"deny list {trust.denied.number} has it"
            )
            raise AgentError(
                f"nothing was changed: {why}, so that {name} is heard with a proof of its certificate "
                "or not at all; an earlier version has none: upgrade it"
            )
        ask(path, device)
        if not wait_until_taken(path, TAKEN, lambda: is_open(ledger)):
            raise AgentError(
                f"{agent} has not taken the request within {TAKEN:g} s ({path}); it does so once it can: "
                "its log says `unproved`"
            )
        typer.echo(
            f"{agent} hears {name} without a proof of its certificate, by its TLS link alone, until {name} "
            "proves one again. Its other neighbours need the same on their sites."
        )


def _neighbour(setup: Setup, name: str) -> str:
    """The name on the certificate of a neighbour, by that or by its label."""
    certificates = setup.manifest.certificates
    near = {one: certificates[one] for one in setup.manifest.link_weights(setup.config.name)}
    if name not in near and name not in near.values():
        raise AgentError(
            f"{name} is no neighbour of {setup.config.name}; its neighbours are "
            f"{', '.join(sorted(near))}"
        )
    return near.get(name, name)


@keys.command("list")
def show(
    directory: Directory = Path("keys"), as_json: AsJson = False, debug: Debug = False
) -> None:
    """List the certificates and signing keys: name, role, state, end, hosts, serial, fingerprints."""
    with guarded(debug):
        from veilsum.agents.pki import Authority, fingerprint_of

        authority = Authority.load(directory)
        entries, keys = authority.entries(), authority.signing_keys()
        if as_json:
            print_json(
                {
                    "directory": str(directory),
                    "certificates": list(map(_plain, entries)),
                    "signing_keys": keys,
                }
            )
        else:
            _print(entries, {label: fingerprint_of(key) for label, key in keys.items()})


def _plain(entry: DirectoryEntry) -> dict[str, Any]:
    return entry._asdict() | {"expires": entry.expires.isoformat(), "hosts": list(entry.hosts)}


def _print(entries: list[DirectoryEntry], signing: dict[str, str]) -> None:
    from veilsum.agents.screens.tables import console, table

    if not entries and not signing:
        typer.echo("no certificates yet; sign a site's request with `veilsum keys sign`")
        return
    rows = [
        (e.name, e.role.value, e.state, f"{e.expires:%Y-%m-%d}", ", ".join(e.hosts) or "-", e.serial[:16],
         e.fingerprint[:SHOWN], e.signing[:SHOWN] or "-")
        for e in entries
    ]  # fmt: skip
    named = {e.name for e in entries}
    rows += [
        (label, "-", "-", "-", "-", "-", "-", found[:SHOWN])
        for label, found in sorted(signing.items()) if label not in named
    ]  # fmt: skip
    heads = ("name", "role", "state", "expires", "hosts", "serial", "sha256", "signing key")
    console().print(table(heads, rows))
