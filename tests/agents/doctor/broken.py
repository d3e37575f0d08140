"""Setups with one thing wrong each, by what changes a good one."""

import datetime as dt
import importlib.metadata
import json
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography import x509

from tests.agents.config.setups import NONCE, PINS, authority
from veilsum.agents.config import Setup
from veilsum.agents.doctor import CheckOutcome, machine
from veilsum.agents.ledger import Ledger, backup
from veilsum.agents.ledger.lock import lock_path
from veilsum.agents.pki import Authority, SigningKey
from veilsum.agents.pki.certificates import device_certificate

FAILURE, WARNING = CheckOutcome.FAILURE, CheckOutcome.WARNING
Breaks = Callable[[Path, pytest.MonkeyPatch], object]


class Broken(NamedTuple):
    """A broken setup: how to break a good one, which check finds it, and what it says."""

    id: str
    check: str
    outcome: CheckOutcome
    says: str
    break_it: Breaks
    days: float = 0.0  # from now
    also: tuple[str, ...] = ()  # checks that find something too
    research: bool = False


def replace_in(path: Path, old: str, new: str) -> None:
    """Replace a text that must be there."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def agent(old: str, new: str) -> Breaks:
    return lambda folder, _: replace_in(folder / "agent.toml", old, new)


def scenario(old: str, new: str) -> Breaks:
    return lambda folder, _: replace_in(folder / "scenario.toml", old, new)


def rows(text: str) -> Breaks:
    return lambda folder, _: (folder / "readings.csv").write_text(text)


def copied(source: str, target: str) -> Breaks:
    return lambda folder, _: shutil.copy(folder / "keys" / source, folder / "keys" / target)


def observed(text: str) -> Breaks:
    def allow(folder: Path, _: pytest.MonkeyPatch) -> None:
        path = folder / "agent.toml"
        path.write_text(f"{path.read_text()}[observers]\n{text}\n")

    return allow


def watched(text: str) -> Breaks:
    """A file of a later epoch, with this in it."""

    def write(folder: Path, _: pytest.MonkeyPatch) -> None:
        path = folder / "agent.toml"
        path.write_text(f'{path.read_text()}[membership]\nfile = "epoch.json"\n')
        (folder / "epoch.json").write_text(text)

    return write


def both(*several: Breaks) -> Breaks:
    def all_of_them(folder: Path, patch: pytest.MonkeyPatch) -> None:
        for one in several:
            one(folder, patch)

    return all_of_them


@cache
def no_hosts() -> Path:
    """The certificate of north again, without any host."""
    home, kept = authority(), authority() / "north-no-hosts.pem"
    public = x509.load_pem_x509_certificate((home / "north.pem").read_bytes()).public_key()
    end = dt.datetime.now(dt.UTC) + dt.timedelta(days=90)
    signer = Authority.load(home)._signer  # a renewal would keep the hosts
    kept.write_bytes(device_certificate(signer, public, "north", (), end))
    return kept


def without_hosts(folder: Path, _: pytest.MonkeyPatch) -> None:
    shutil.copy(no_hosts(), folder / "keys" / "north.pem")


def other_authority(folder: Path, _: pytest.MonkeyPatch) -> None:
    Authority.create(folder / "other")
    shutil.move(folder / "other" / "ca.pem", folder / "keys" / "ca.pem")
    shutil.rmtree(folder / "other")


def with_ledger(then: Breaks) -> Breaks:
    """A ledger of north that was made under the good setup, then something else."""

    def make(folder: Path, patch: pytest.MonkeyPatch) -> None:
        setup = Setup.load(folder / "agent.toml")
        key, device = setup.ledger_key(), setup.device_secret()
        path, chosen = folder / "north.ledger", setup.config.budget
        Ledger.open(
            path, setup.manifest, "north", setup.budget, per=chosen.per, refill=chosen.refill,
            zone=chosen.zone, key=key, device=device,
        ).close()  # fmt: skip
        then(folder, patch)

    return make


def of_east(folder: Path, _: pytest.MonkeyPatch) -> None:
    setup = Setup.load(folder / "agent.toml")
    key, device = setup.ledger_key(), setup.device_secret()
    path = folder / "north.ledger"
    Ledger.open(path, setup.manifest, "east", setup.budget, key=key, device=device).close()


def damage(folder: Path, _: pytest.MonkeyPatch) -> None:
    import sqlite3

    connection = sqlite3.connect(folder / "north.ledger")
    with connection:
        connection.execute("UPDATE meta SET value = '7' WHERE name = 'epsilon'")
    connection.close()


def a_backup(folder: Path, _: pytest.MonkeyPatch) -> None:
    setup = Setup.load(folder / "agent.toml")
    path = folder / "north.ledger"
    backup(path, folder / "copy", setup.ledger_key())
    path.unlink()
    (folder / "copy").rename(path)


def lost(folder: Path, _: pytest.MonkeyPatch) -> None:
    """The ledger is gone, and its lock file records releases."""
    lock = lock_path(folder / "north.ledger")
    record = json.loads(lock.read_bytes()) | {"releases": 11}
    lock.write_bytes(json.dumps(record).encode())
    (folder / "north.ledger").unlink()


def full_disk(free: int) -> Breaks:
    usage = shutil.disk_usage("/")._replace(free=free)
    return lambda _, patch: patch.setattr(shutil, "disk_usage", lambda _: usage)


def read_only(_: Path, patch: pytest.MonkeyPatch) -> None:
    def refuse(**_: Any) -> Any:
        raise OSError(30, "Read-only file system")

    patch.setattr(tempfile, "TemporaryFile", refuse)


def no_zenoh(_: Path, patch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    patch.setattr(importlib.metadata, "version", version)


def old_zenoh(_: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(importlib.metadata, "version", lambda _: "1.9.2")


def time_server(kept: bool) -> Breaks:
    return lambda _, patch: patch.setattr(machine, "synchronised", lambda: kept)


def signing(change: Callable[[Path], object]) -> Breaks:
    return lambda folder, _: change(folder / "keys" / "north.signing.key")


def pins(old: str, new: str) -> Breaks:
    return lambda folder, _: replace_in(folder / "signing-keys.toml", old, new)


def own_pin(folder: Path, _: pytest.MonkeyPatch) -> None:
    key = SigningKey.load(folder / "keys" / "north.signing.key").public
    replace_in(folder / "signing-keys.toml", key, "ab" * 32)


NO_PEERS = agent('east = "tls/127.0.0.1:7448"\n', "")
STREAM = scenario('name = "average"\nrounds = 60', 'name = "learn"\nrounds = 60')
BATCHES = scenario("radius = inf", "radius = inf\nbatches = {growth = 2.0, longest = 24}")
DAILY = agent("epsilon = 20.0", 'epsilon = 20.0\nper = "day"')
COMMAND = 'csv = "readings.csv"\ncolumn = "load"'


def denied(name: str) -> Breaks:
    """The authority has denied a name; without one, somebody else wrote the list."""

    def bring(folder: Path, _: pytest.MonkeyPatch) -> None:
        home = folder / "authority"
        shutil.copytree(authority(), home)
        Authority.load(home).revoke(name or "north")
        text = (home / "denied.json").read_text()
        (folder / "keys" / "denied.json").write_text(text if name else text.replace("1", "2", 1))
        shutil.rmtree(home)

    return bring


CASES = [
    Broken("a site that is denied", "keys", FAILURE, "neighbours refuse this site: its name is on",
           denied("north")),
    Broken("a neighbour that is denied", "keys", WARNING, "the deny list has east", denied("east")),
    Broken("a forged deny list", "keys", FAILURE, "is not signed by the authority", denied("")),
    Broken("misspelt key", "files", FAILURE, 'did you mean "budget"?', agent("[budget]", "[bugdet]")),
    Broken("no scenario", "files", FAILURE, "scenario: there is no scenario",
           lambda folder, _: (folder / "scenario.toml").unlink()),
    Broken("no member", "files", FAILURE, "no member of suppliers is called 'nroth'",
           agent('name = "north"', 'name = "nroth"')),
    Broken("a stranger as peer", "files", FAILURE, "peers.eats: no neighbour", agent("east =", "eats =")),
    Broken("an epoch that is none", "membership", WARNING, "cannot be read as an epoch", watched("{}")),
    Broken("no guarantee", "guarantee", FAILURE, "an agent makes proved guarantees",
           scenario('protect = "signal"\nepsilon = 20.0\nradius = inf', 'protect = "nothing"'),
           also=("budget", "accuracy")),
    Broken("no noise on purpose", "budget", WARNING, "nothing is guaranteed",
           scenario('protect = "signal"\nepsilon = 20.0\nradius = inf', 'protect = "nothing"'),
           research=True),
    Broken("no endpoint", "peers", FAILURE, "line 6: peers.east: 'tls/east' is not an endpoint",
           agent("tls/127.0.0.1:7448", "tls/east")),
    Broken("no endpoint to listen on", "peers", FAILURE, "listen: 'tcp/127.0.0.1:0' is not",
           agent("tls/127.0.0.1:0", "tcp/127.0.0.1:0"), also=("hosts",)),
    Broken("nobody can connect", "peers", FAILURE, "east must connect to this agent, and it listens on "
           "any free port", NO_PEERS),
    Broken("nobody else can connect", "peers", WARNING, "it listens on this machine only",
           both(NO_PEERS, agent("127.0.0.1:0", "127.0.0.1:18731"))),
    Broken("no keys", "keys", FAILURE, "there is no section [keys]", agent('[keys]\nfolder = "keys"\n', "")),
    Broken("no private key", "keys", FAILURE, "north.key is missing",
           lambda folder, _: (folder / "keys" / "north.key").unlink()),
    Broken("the key of another", "keys", FAILURE, "are not a pair", copied("east.key", "north.key")),
    Broken("the certificate of another", "keys", FAILURE, "is for 'east', and this device is 'north'",
           both(copied("east.key", "north.key"), copied("east.pem", "north.pem"))),
    Broken("a public key file", "keys", FAILURE, "can be read by others",
           lambda folder, _: (folder / "keys" / "north.key").chmod(0o644)),
    Broken("another authority", "keys", FAILURE, "is of another authority", other_authority),
    Broken("expired", "keys", FAILURE, "is expired", lambda *_: None, days=100),
    Broken("not yet valid", "keys", FAILURE, "is not yet valid", lambda *_: None, days=-100),
    Broken("expires soon", "keys", WARNING, "expires in 10 days", lambda *_: None, days=80),
    Broken("the authority's key", "keys", WARNING, "signs certificates and is on this machine",
           lambda folder, _: (folder / "keys" / "ca.key").write_text("")),
    Broken("no hosts", "hosts", WARNING, "names no host, so a neighbour cannot connect", without_hosts),
    Broken("no hosts, and east must connect", "hosts", FAILURE, "names no host, so east cannot connect",
           both(without_hosts, NO_PEERS), also=("peers",)),
    Broken("another host", "hosts", WARNING, "listens on localhost, and its certificate names 127.0.0.1",
           agent("127.0.0.1:0", "localhost:0")),
    Broken("an observer with a member's name", "observers", WARNING, "east has the name of a member",
           observed('allow = ["east"]')),
    Broken("statuses and links on one port", "observers", FAILURE, "both to be on port 7461",
           both(agent("127.0.0.1:0", "127.0.0.1:7461"),
                observed('allow = ["x"]\nlisten = "tls/127.0.0.1:7461"'))),
    Broken("no port above", "observers", FAILURE, "there is no port 65000 + 1000",
           both(agent("127.0.0.1:0", "127.0.0.1:65000"), observed('allow = ["x"]'))),
    Broken("an address of another machine for statuses", "ports", FAILURE, "cannot listen on tls/192.0.2.1",
           observed('allow = ["x"]\nlisten = "tls/192.0.2.1:7447"')),
    Broken("a ledger of another", "ledger", FAILURE, "belongs to east, and this agent is north", of_east),
    Broken("a damaged ledger", "ledger", FAILURE, "cannot be trusted", with_ledger(damage)),
    Broken("a lost ledger", "ledger", FAILURE, "its lock file records 11 releases", with_ledger(lost)),
    Broken("other terms", "ledger", FAILURE, "was made for the term family = ",
           with_ledger(scenario("[0.0, 100.0]", "[0.0, 101.0]"))),
    Broken("another budget", "ledger", FAILURE, "was made for budget epsilon 20.0, and this agent has "
           "21.0", with_ledger(agent("epsilon = 20.0", "epsilon = 21.0"))),
    Broken("a budget that was none per day", "ledger", FAILURE, "record the change with `veilsum ledger "
           "amend agent.toml --raise`", with_ledger(DAILY)),
    Broken("another period", "ledger", FAILURE, "period of the budget day, and this agent has week",
           both(DAILY, with_ledger(agent('per = "day"', 'per = "week"')))),
    Broken("another refill", "ledger", FAILURE, "refill of the budget rolling, and this agent has fixed",
           both(DAILY, with_ledger(agent('per = "day"', 'per = "day"\nrefill = "fixed"')))),
    Broken("another zone", "ledger", FAILURE, "time zone of the budget UTC, and this agent has Asia/Tokyo",
           both(DAILY, agent('"day"', '"day"\nrefill = "fixed"'),
                with_ledger(agent('"fixed"', '"fixed"\nzone = "Asia/Tokyo"')))),
    Broken("a backup", "ledger", FAILURE, "is a backup made at", with_ledger(a_backup)),
    Broken("no ledger key", "ledger", FAILURE, "the key",
           with_ledger(lambda folder, _: (folder / "north.ledger.key").unlink())),
    Broken("a public ledger key", "ledger", FAILURE, "can be read by others",
           with_ledger(lambda folder, _: (folder / "north.ledger.key").chmod(0o644))),
    Broken("budget below epsilon", "budget", FAILURE, "a reading costs epsilon = 20, delta = 0 and the "
           "budget is epsilon = 19", agent("epsilon = 20.0", "epsilon = 19.0")),
    Broken("budget for few readings", "budget", WARNING, "buys 3 readings of 60; the others are not",
           both(STREAM, agent("epsilon = 20.0", "epsilon = 60.0")), also=("accuracy",)),
    Broken("budget for no stream", "budget", WARNING, "buys 1 readings of a stream without end",
           both(STREAM, scenario("rounds = 60", "rounds = 60\n[agents]\nopen_ended = true")),
           also=("accuracy",)),
    Broken("budget below a batch", "budget", FAILURE, "a batch of 24 readings costs epsilon = 480, and "
           "the budget is epsilon = 20, delta = 0 every day", both(STREAM, BATCHES, DAILY),
           also=("accuracy",)),
    Broken("budget of a window below a batch", "budget", FAILURE, "a batch of 7 readings costs epsilon = "
           "140", both(STREAM, BATCHES, agent("epsilon = 20.0",
                       'epsilon = 139.0\nunit = "window"\nwindow = 7')), also=("accuracy",)),
    Broken("budget below a batch without end", "budget", FAILURE, "a batch of ever more readings",
           both(STREAM, scenario("radius = inf", "radius = inf\nbatches = {growth = 2.0}"), DAILY,
                scenario("rounds = 60", "rounds = 60\n[agents]\nopen_ended = true")),
           also=("accuracy",)),
    Broken("budget for few batches", "budget", WARNING, "buys 56 readings of 60",
           both(STREAM, BATCHES, agent("epsilon = 20.0", "epsilon = 1180.0")),
           also=("accuracy",)),
    Broken("a budget that buys nothing", "accuracy", WARNING, "covers all of [0, 100]",
           both(scenario("epsilon = 20.0", "epsilon = 1.0"))),
    Broken("clipped rounds without a tolerance", "accuracy", WARNING, "results have no interval",
           scenario("rounds = 60", "rounds = 60\n[agents]\nclip = 5.0")),
    Broken("no readings", "readings", FAILURE, "cannot read the readings",
           lambda folder, _: (folder / "readings.csv").unlink()),
    Broken("no such column", "readings", FAILURE, "has no column kwh among the 2",
           agent('column = "load"', 'column = "kwh"')),
    Broken("no number", "readings", FAILURE, "1 of the first 2 readings cannot be used",
           rows("hour,load\n1,42.5\n2,forty\n")),
    Broken("not finite", "readings", FAILURE, "the value is not a finite number",
           rows("hour,load\n1,nan\n")),
    Broken("too few cells", "readings", FAILURE, "the row has 1 columns, too few", rows("hour,load\n1\n")),
    Broken("two values", "readings", FAILURE, "another number of values than normal takes (1)",
           agent('column = "load"', 'column = ["hour", "load"]')),
    Broken("outside the bounds", "readings", WARNING, "2 of the first 3 readings lie outside the public "
           "bounds", rows("hour,load\n1,42.5\n2,142.5\n3,-0.5\n")),
    Broken("outside the support", "readings", FAILURE, "1 of the first 1 readings lie outside",
           both(scenario('"normal"\nsigma = 10.0\nbounds = [0.0, 100.0]', '"exponential"'),
                scenario("mu = 50.0", "rate = 1.0"), scenario("radius = inf", "radius = 1.0"),
                rows("hour,load\n1,-1.5\n"))),
    Broken("an empty file", "readings", FAILURE, "is empty",
           both(rows(""), agent('column = "load"', 'column = "load"\nfollow = false'))),
    Broken("no row yet", "readings", WARNING, "there is no reading yet", rows("hour,load\n")),
    Broken("values as times", "readings", FAILURE, "line 20: readings.time: the column load has the values",
           agent('column = "load"', 'column = "load"\ntime = "load"')),
    Broken("the last column as time", "readings", FAILURE, "the column load has the values",
           agent('column = "load"', 'time = "load"')),
    Broken("values as keys", "readings", WARNING, "the second of two equal readings counts as a repet",
           agent('column = "load"', 'column = "load"\nkey = "load"')),
    Broken("repeated keys", "readings", WARNING, "line 20: readings.key: 2 of the first 4 readings repeat "
           "the key of an earlier one and are left out: row 3 that of row 1, row 4 that of row 1",
           both(rows("hour,load\n7,42.5\n8,43.5\n7,44.5\n7,42.5\n"),
                agent('column = "load"', 'column = "load"\nkey = "hour"'))),
    Broken("a row without end", "readings", WARNING, "the last row of readings.csv has no end of line",
           rows("hour,load\n1,42.5\n2,4")),
    Broken("times that are none", "readings", FAILURE, "1 of the first 2 readings cannot be used",
           both(rows("hour,load\n1,42.5\nnoon,43.5\n"),
                agent('column = "load"', 'column = "load"\ntime = "hour"'))),
    Broken("no program", "readings", FAILURE, "there is no program 'no-such-meter'",
           agent(COMMAND, 'command = ["no-such-meter"]')),
    Broken("no folder", "disk", FAILURE, "there is no folder", agent("north.ledger", "gone/north.ledger")),
    Broken("a read-only disk", "disk", FAILURE, "cannot be written to: Read-only", read_only),
    Broken("a full disk", "disk", FAILURE, "1 MiB are free", full_disk(1 << 20)),
    Broken("little room", "disk", WARNING, "100 MiB are free", full_disk(100 << 20)),
    Broken("a status in place of the ledger", "outputs", FAILURE, "north.ledger is the ledger",
           agent("[readings]", '[status]\nfile = "north.ledger"\n[readings]')),
    Broken("a clock that was never set", "clock", FAILURE, "the clock says 19", lambda *_: None,
           days=-20000, also=("keys",)),
    Broken("no time server", "clock", WARNING, "no time server keeps it", time_server(False)),
    Broken("no zenoh", "versions", FAILURE, "eclipse-zenoh is missing", no_zenoh),
    Broken("old zenoh", "versions", FAILURE, "eclipse-zenoh 1.9.2", old_zenoh),
    Broken("an address elsewhere", "ports", FAILURE, "cannot listen on tls/192.0.2.1:0",
           agent("127.0.0.1:0", "192.0.2.1:0"), also=("hosts",)),
]  # fmt: skip

MASKED_CASES = [  # of a masked sum
    Broken("no signing key", "signing", FAILURE, "north.signing.key is missing", signing(Path.unlink)),
    Broken("a public signing key", "signing", FAILURE, "can be read by others",
           signing(lambda path: path.chmod(0o640))),
    Broken("another signing key", "signing", FAILURE, "is not the key that the scenario pins for north",
           signing(lambda path: SigningKey.create(path, force=True))),
    Broken("another key pinned", "signing", FAILURE, "the pinned one with abababab", own_pin),
    Broken("no key at all", "signing", FAILURE, "holds no Ed25519 key",
           signing(lambda path: path.write_text("none"))),
    Broken("no pins", "files", FAILURE, "agents.nonce: missing", scenario(PINS, "")),
    Broken("no nonce", "files", FAILURE, 'add nonce = "', scenario(f'nonce = "{NONCE}"\n', "")),
    Broken("a short nonce", "files", FAILURE, "32 hexadecimal digits", scenario(NONCE, "1234")),
    Broken("no list of keys", "files", FAILURE, "signing-keys.toml cannot be read",
           lambda folder, _: (folder / "signing-keys.toml").unlink()),
    Broken("a key that is not pinned", "files", FAILURE, "signing_keys lacks west", pins("west", "# west")),
    Broken("a key of nobody", "files", FAILURE, "signing_keys names waste", pins("west", "waste")),
    Broken("too many colluders", "files", FAILURE, "n - colluders - 2 absent must be at least 2",
           scenario("colluders = 1", "colluders = 2")),
    Broken("a quorum of its own", "files", FAILURE, "quorum must be n - absent = 3 - 0",
           scenario("[agents]\n", "[agents]\nquorum = 2\n")),
    Broken("a budget below all attempts", "budget", FAILURE,
           "a query of up to 1 attempts costs epsilon = 20, delta = 0 and the budget is epsilon = 19",
           agent("epsilon = 20.0", "epsilon = 19.0")),
]  # fmt: skip
