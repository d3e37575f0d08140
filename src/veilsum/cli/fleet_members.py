"""veilsum fleet init, join, admit, remove, witnesses, rotate, close: who is in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veilsum.cli.fleet_options import HERE, asked, on_terminal, rows, say, words
from veilsum.cli.guard import Debug, guarded
from veilsum.errors import CommandError

if TYPE_CHECKING:
    from veilsum.fleet.consent import Policy
    from veilsum.fleet.membership import Membership

Address = Annotated[
    str,
    typer.Argument(
        metavar="ADDRESS",
        help="Of the board: a folder, s3://bucket/path, gs://, az://, or https:// of a WebDAV server.",
    ),
]
Names = Annotated[list[str], typer.Argument(metavar="NAME[=KEY] ...", help="Members.")]
Role = Annotated[
    list[str] | None,
    typer.Option("--role", metavar="ROLE", help="site, keeper, witness, asker, observer; repeats."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
SHARED = (
    "Do all sites mount this one folder (NFS, SMB, one disk), or has each machine a copy that a program "
    "keeps in step (Syncthing, Nextcloud, Dropbox)? mounted or synced"
)


def init(
    address: Address,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the fleet.", show_default="from ADDRESS")
    ] = None,
    desk: Annotated[str, typer.Option(metavar="NAME", help="Of the member that asks.")] = "desk",
    mounted: Annotated[
        bool | None,
        typer.Option(
            "--mounted/--synced", show_default=False,
            help="Of a folder: all sites mount this one, or each machine has a copy.",
        ),
    ] = None,
    members: Annotated[
        bool, typer.Option("--member-witnesses", help="Let sites witness releases in any case.")
    ] = False,
    debug: Debug = False,
) -> None:  # fmt: skip
    """Begin a fleet, in an empty folder: the authority's key, and a member that asks.

    What is here admits sites (veilsum fleet admit) and asks them (veilsum ask ... --fleet ADDRESS). Keep
    authority.key, and one copy of it on paper or a stick: nobody else can admit or remove a member.
    """
    with guarded(debug):
        from veilsum.fleet.joining import begin, fingerprint, is_folder, named, said_of

        if is_folder(address) and mounted is None and on_terminal() and not members:
            mounted = asked(None, "--mounted", SHARED, _mounted, "synced")
        found, probe = begin(
            Path.cwd(), address, name=named(name) if name else "", desk=named(desk, "desk"),
            mounted=bool(mounted), witnesses=members,
        )  # fmt: skip
        say(f"Began the fleet {found.fleet}. Its board is {address}.")
        rows(
            [
                (
                    "authority",
                    f"{fingerprint(found.founder)}   (authority.key: keep it, and a copy)",
                ),
                ("asks", f"{found.members[0].name}, from this folder"),
                (
                    "witnesses",
                    _witnesses(said_of(found.witnesses), probe.reason, found.witnesses.store),
                ),
            ]
        )
        say("\nNext, on each site, in an empty folder with its data:")
        say(f"  veilsum fleet join {address}")
        say("and then here: veilsum fleet admit NAME ...")


def _witnesses(said: str, reason: str, store: bool) -> str:
    if store:
        return f"{said} ({reason})"
    return f"sites, 2 of the first 3, once they are admitted ({reason})"


def _mounted(text: str) -> bool:
    if text.lower() not in ("mounted", "synced"):
        raise CommandError("say mounted or synced")
    return text.lower() == "mounted"


def join(
    address: Address,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Of this site.")] = None,
    data: Annotated[
        str | None, typer.Option(metavar="PATH", help="Its table: a CSV or Parquet file.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", "--eps", metavar="E", help="Its budget.")
    ] = None,
    per: Annotated[
        str, typer.Option(metavar="UNIT", help="reading, stream, day, month, year, or window 7 days.")
    ] = "reading",
    approve: Annotated[
        str | None,
        typer.Option(metavar="KINDS", help="Questions that need no person, such as mean,count."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help="That these may read, such as kwh,region.")
    ] = None,
    max_epsilon: Annotated[
        float | None,
        typer.Option(metavar="E", help="Of these together.", show_default="1 at most"),
    ] = None,
    each: Annotated[
        str, typer.Option(metavar="PERIOD", help="Of max-epsilon: question, day, month, year.")
    ] = "month",
    authority: Annotated[
        str, typer.Option(metavar="KEY", help="20 digits at least; refuse any other.")
    ] = "",
    role: Role = None,
    debug: Debug = False,
) -> None:  # fmt: skip
    """Make this folder a site of a fleet: its key, its budget, its policy, and its request.

    On a terminal it asks for what is missing. The budget is this site's own: nobody else can raise it. A
    question that the policy does not approve waits for veilsum fleet inbox and approve.
    """
    with guarded(debug):
        from veilsum.fleet import joining
        from veilsum.fleet.membership import SITE

        here = Path.cwd()
        joining.check_empty(here)
        store = joining.opened(address, here)
        fleet = joining.chosen_fleet(store, authority)
        signer = joining.newest(fleet, store).signer
        shown = joining.fingerprint(fleet.founder)
        if signer != fleet.id:
            shown += f", and since a rotation {joining.fingerprint(signer)}"
        say(f"Fleet {fleet.fleet}. Its authority is {shown}.")
        if epsilon is not None:
            _number(f"{epsilon:g}")
        roles = tuple(role) if role else joining.SITES
        called = asked(name, "--name", "What is this site called?", _name, joining.named(here.name))
        policy, limit = None, 1.0
        if SITE in roles:
            data = asked(data, "--data", "Where is its table (a CSV or Parquet file)?", _table)
            limit = asked(
                epsilon,
                "--epsilon",
                "How much epsilon may be spent of a row here, in all?",
                _number,
                "3",
            )
            policy = _policy(_table(data), limit, approve, columns, max_epsilon, each)
        _, request = joining.join(
            here, address, name=_name(called), data=data, epsilon=limit, per=per, policy=policy,
            roles=roles, authority=fleet.founder,
        )  # fmt: skip
        _joined(here, request.name, joining.fingerprint(request.key), policy)
        if not authority:
            say(
                f"\nCompare by phone: the authority's screen must say {shown}, and this site's key is "
                f"{joining.fingerprint(request.key)}.", ""
            )  # fmt: skip
        say(f"\nThe authority then calls: veilsum fleet admit {request.name}")
        say("Next, here: veilsum fleet run   (or veilsum fleet step, from cron)")


def _joined(here: Path, name: str, key: str, policy: Policy | None) -> None:
    """What was made."""
    from veilsum.fleet.site import Site

    lines = [("site", f"{name}, key {key}")]
    with Site(here) as site:
        if site.data is not None:
            columns = site.data.columns() or []
            lines.append(("data", f"{site.config.data['path']}: {', '.join(columns)}"))
            lines.append(("budget", f"{site.config.budget}"))
    yes = "each question waits for a person here: veilsum fleet inbox"
    if policy is not None:
        yes = (
            f"yes to {', '.join(policy.kinds)} of {', '.join(policy.columns) or 'no column'}, up to epsilon "
            f"{policy.max_epsilon:g} each {policy.per}; other questions wait for veilsum fleet approve"
        )
    rows(
        [
            *lines,
            ("policy", yes),
            ("files", "site.toml (change it freely), site.db (never copy it)"),
        ]
    )


def _name(text: str) -> str:
    from veilsum.fleet.joining import named

    if named(text) != text.strip().lower():
        raise CommandError(
            f"a site is called by letters, digits, dots and lines, such as {named(text)}"
        )
    return named(text)


def _table(text: str) -> str:
    path = Path(text).expanduser()
    if path.is_dir():
        raise CommandError(f"{text} is a folder; give a file, or a pattern such as {text}/*.csv")
    if not path.is_file() and not any(mark in text for mark in "*?["):
        raise CommandError(
            f"there is no file {text}; give its path from this folder ({Path.cwd().name}), or write it first"
        )
    return text


def _number(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise CommandError(f"epsilon is a number above 0, such as 1; found {text}")
    return found


def _policy(
    data: str, limit: float, approve: str | None, columns: str | None, most: float | None, each: str
) -> Policy | None:  # fmt: skip
    """What is approved without a person; None if nothing is."""
    from veilsum.fleet.consent import Policy

    if approve is None and on_terminal():
        approve = asked(
            None, "--approve", "Which questions need no person? Such as mean, count; Enter for none",
            str, "",
        )  # fmt: skip
    kinds = words(approve)
    if not kinds:
        if columns is not None or most is not None:
            raise CommandError(
                "--columns and --max-epsilon are of --approve, such as --approve mean,count"
            )
        return None
    known = columns_of_file(data)

    def read(text: str) -> tuple[str, ...]:
        for one in words(text):
            if one not in known:
                raise CommandError(f"{data} has no column {one}; it has {', '.join(known)}")
        return words(text)

    chosen = None if columns is None else read(columns)
    shown = ", ".join(known)
    given = asked(chosen, "--columns", f"Which columns may they read? Here are {shown}", read)
    upto = min(1.0, limit) if most is None else most
    return Policy(kinds, given, upto, each)


def columns_of_file(data: str) -> list[str]:
    """The columns of a table."""
    from veilsum.fleet.sources import open_source

    return open_source({"path": data}, Path.cwd()).columns() or []


def admit(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME[=KEY] ...", help="Who asked to join.")
    ],
    role: Role = None,
    yes: Yes = False,
    debug: Debug = False,
) -> None:
    """Admit sites that asked to join, from the authority's folder; again: another key, or other roles.

    Several names are one epoch. NAME=KEY, with the digits that the site's screen says, refuses any other key.
    """
    with guarded(debug):
        from veilsum.fleet import joining

        authority = joining.FleetAuthority(HERE)
        with authority.seated() as seat:
            before = seat.membership
            found = joining.requested(
                before, joining.requests_on(seat.stores[0]), names, tuple(role or ())
            )
        for one in found:
            held = before.get(one.name)
            if held is not None and held.key != one.key:
                _confirm_key(
                    one.name, joining.fingerprint(held.key), joining.fingerprint(one.key), yes
                )
        after = authority.admit(found)
        lines = []
        for one in found:
            held, now = before.get(one.name), ", ".join(one.roles)
            what = f"{joining.fingerprint(one.key)}   {now}"
            if held is not None and held.key != one.key:
                what += "; its key before is closed"
            elif held is not None and held.roles != one.roles:
                what += f"; was {', '.join(held.roles) or 'out'}"
            lines.append((one.name, what))
        _epoch(after, lines)
        say("\nCompare each key with what the site's screen says, by phone; if one differs:", "")
        say("  veilsum fleet remove NAME")


def _confirm_key(name: str, old: str, new: str, yes: bool) -> None:
    text = f"{name} has the key {old} and asks for {new}. The old one will be closed for good"
    if yes:
        return
    if not on_terminal():
        raise CommandError(
            f"{text}: what it spent is taken over, what it has not shown is lost. If {name} lost its file or "
            "was restored from a backup, say so with --yes"
        )
    typer.confirm(f"{text}. Go on?", abort=True)


def _epoch(after: Membership, lines: list[tuple[str, str]]) -> None:
    """What holds from now on."""
    from veilsum.errors import FleetError
    from veilsum.fleet.joining import said_of
    from veilsum.fleet.membership import SITE
    from veilsum.fleet.sum_posts import numbers_of

    sites = len(after.having(SITE))
    say(f"Epoch {after.number} of {after.fleet}: {sites} site{'' if sites == 1 else 's'}.")
    try:
        found = numbers_of(after)
        sums = (
            f"{found.colluding} of {found.keepers} keepers and {found.corrupt} of the sites may collude, "
            f"{found.absent or 'none'} may be absent"
        )
    except FleetError as error:
        sums = f"not yet: {str(error).partition(':')[0]}"
    rows([*lines, ("secure sums", sums), ("witnesses", said_of(after.witnesses))])


def remove(names: Names, yes: Yes = False, debug: Debug = False) -> None:
    """Remove members: what they posted stays true, and they post nothing more."""
    with guarded(debug):
        from veilsum.fleet.joining import FleetAuthority, removable

        authority = FleetAuthority(HERE)
        with authority.seated() as seat:
            removable(seat.membership, names)
        if not yes and on_terminal():
            typer.confirm(f"Remove {', '.join(names)}?", abort=True)
        after = authority.remove(names)
        _epoch(after, [(name, "is out; veilsum fleet admit lets it in again") for name in names])


def witnesses(
    names: Annotated[str, typer.Argument(metavar="NAME,NAME,...", help="Members, or: store.")],
    needed: Annotated[int, typer.Option(metavar="W", help="How many must hold a release.")] = 0,
    silent: Annotated[int, typer.Option(metavar="K", help="How many may fail or forget.")] = 0,
    mounted: Annotated[
        bool, typer.Option("--mounted", help="Of a folder: all sites mount this one.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Say who must hold a release before it opens: members, or the store itself.

    Let every site take a step before, and all releases leave: who is asked changes for all of them at once.
    """
    with guarded(debug):
        from veilsum.errors import FleetError
        from veilsum.fleet.joining import FleetAuthority
        from veilsum.fleet.membership import Witnesses
        from veilsum.fleet.store import probe_witness

        authority = FleetAuthority(HERE)
        if names == "store":
            with authority.seated() as seat:
                probe = probe_witness(seat.stores[0], one_file_system=mounted)
            if not probe.able:
                raise FleetError(f"this store cannot witness: {probe.reason}; name members instead")
            _epoch(authority.set_witnesses(Witnesses()), [])
            return
        members = words(names)
        chosen = Witnesses(members, needed or (len(members) + silent) // 2 + 1, silent)
        _epoch(authority.set_witnesses(chosen), [])


def rotate(debug: Debug = False) -> None:
    """Sign with a new authority key from now on, such as when a person leaves who knew it.

    Sites follow by themselves. It does not help against a thief who has the key already: begin a new fleet.
    """
    with guarded(debug):
        from veilsum.fleet.joining import FleetAuthority, fingerprint

        after = FleetAuthority(HERE).rotate()
        say(f"Epoch {after.number} of {after.fleet} names the key that signs the next one.")
        rows(
            [
                (
                    "authority",
                    f"{fingerprint(after.signer)}   (authority.key: keep it, and a copy)",
                ),
                (
                    "before",
                    f"{fingerprint(after.authority)}   (signs nothing more; destroy its copies)",
                ),
            ]
        )


def close(yes: Yes = False, debug: Debug = False) -> None:
    """End a fleet for good: nobody asks and nobody releases any more."""
    with guarded(debug):
        from veilsum.fleet.joining import FleetAuthority

        authority = FleetAuthority(HERE)
        if not yes:
            if not on_terminal():
                raise CommandError("ending a fleet is for good: say so with --yes")
            typer.confirm("End this fleet for good?", abort=True)
        after = authority.close()
        say(
            f"Epoch {after.number} of {after.fleet} has no member with a role. Sites may stop, and remove "
            "their folders; the board may be removed once every site has taken a step."
        )
