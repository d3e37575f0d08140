"""Files of the version before: read as they are, migrated whole or not at all, and continued."""

import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from murmura.agents.ledger import (
    Ledger,
    key_of,
    migration,
    read_ledger,
    restore,
    verification,
    verify,
)
from murmura.agents.ledger.migration import STEPS, backup_path
from murmura.agents.ledger.store import Store
from murmura.agents.protocol import Options
from murmura.agents.readings import IterableReadings
from murmura.agents.release import make_mechanism
from murmura.agents.runtime import Log, Node
from murmura.agents.runtime.spool import open_spool
from murmura.agents.transport.memory import MemoryNetwork
from murmura.cli.app import app
from murmura.errors import LedgerError
from murmura.privacy.accounting import Budget
from tests.agents.upgrade import make_baseline as baseline
from tests.agents.upgrade.fleet import installed

FOLDER = baseline.BASELINE
FACTS: dict[str, Any] = json.loads((FOLDER / "facts.json").read_text())
KEY, DEVICE = key_of(baseline.KEY), baseline.DEVICE
PROBES = ("checked", "backed up", "from 6", "changed", "committed")
UNCHANGED = [name for name in next(iter(FACTS.values())) if name not in ("format", "changes")]


@pytest.fixture(scope="module")
def terms() -> Any:
    return baseline.manifests()


def copied(tmp_path: Path, name: str) -> Path:
    """A ledger of the baseline, with all the files beside it."""
    folder, file = name.split("/")
    shutil.copytree(FOLDER / folder, tmp_path / folder)
    return tmp_path / folder / file


def opened(path: Path, terms: Any, **more: Any) -> Ledger:
    manifest = terms[path.parent.name.split("-")[0]][0]
    epsilon = 12.0 if path.parent.name == "gossip" and path.name == "0.ledger" else 9.0
    given: dict[str, Any] = {"key": KEY, "device": DEVICE} | more
    return Ledger.open(path, manifest, path.stem, Budget(epsilon), **given)


def facts(path: Path) -> Any:
    return json.loads(json.dumps(baseline.facts(baseline.copied(path))))


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.endswith("-shm")}


def test_the_fixtures_have_what_is_to_survive() -> None:
    gossip, masked = FACTS["gossip/0.ledger"], FACTS["masked/0.ledger"]
    assert len(gossip["releases"]) >= 3
    assert len(gossip["passed"]) == 2
    assert [change[3] for change in gossip["changes"]] == ["budget"]
    assert len(gossip["peers"]) == 2
    assert gossip["spool"]
    assert gossip["state"]
    assert len(masked["sessions"]) >= 2
    assert len(masked["queries"]) >= 2
    assert (FOLDER / "gossip-killed" / "0.ledger-wal").stat().st_size > 0
    assert {found["format"] for found in FACTS.values()} == {"6"}


@pytest.mark.parametrize("name", FACTS)
def test_a_ledger_of_the_version_before_is_read_without_a_change(tmp_path: Path, name: str) -> None:
    path = copied(tmp_path, name)
    before = contents(path.parent)
    assert verify(path, KEY).ok
    assert facts(path) == FACTS[name]
    assert contents(path.parent) == before


@pytest.mark.parametrize("name", FACTS)
def test_a_migrated_ledger_has_all_that_it_had(tmp_path: Path, name: str, terms: Any) -> None:
    path, was = copied(tmp_path, name), FACTS[name]
    with opened(path, terms) as ledger:
        assert ledger.migrated_from == 6
        assert ledger.incarnation == was["incarnation"], "its mixing state is continued"
        assert (ledger.load() or b"").decode("latin-1") == was["state"]
    now = facts(path)
    assert {k: now[k] for k in UNCHANGED} == {k: was[k] for k in UNCHANGED}
    assert now["format"] == "7"
    assert now["changes"][:-1] == was["changes"]
    assert now["changes"][-1][3:8] == ["migrated", "murmura 0.1.0", "", "format 6", "format 7"]
    assert verify(path, KEY).ok
    (path.parent / f"{path.name}.key").write_bytes(baseline.KEY)
    said = CliRunner().invoke(app, ["ledger", "verify", str(path)])
    assert said.exit_code == 0, said.output
    shown = CliRunner().invoke(app, ["ledger", "report", str(path)])
    assert "format 6 -> format 7" in " ".join(shown.output.split()), shown.output
    with opened(path, terms) as ledger:
        assert ledger.migrated_from == 0, "once"
    assert len(read_ledger(path).changes) == len(was["changes"]) + 1
    kept = backup_path(path, 6)
    assert verify(kept, KEY).ok
    assert read_ledger(kept).meta["copy"]
    assert read_ledger(kept).entries == read_ledger(path).entries


def test_a_killed_migration_is_begun_again(tmp_path: Path, terms: Any) -> None:
    names = ("gossip-killed/0.ledger", "gossip/0.ledger", "masked/1.ledger")
    cases = [(name, probe) for name in names for probe in PROBES]
    paths = [copied(tmp_path / f"{k}", name) for k, (name, _) in enumerate(cases)]
    killed = kill_at([(path, probe) for path, (_, probe) in zip(paths, cases, strict=True)])
    assert killed == [-signal.SIGKILL] * len(cases)
    for path, (name, probe) in zip(paths, cases, strict=True):
        found = facts(path)
        assert found["format"] == ("7" if probe == "committed" else "6")
        if probe != "committed":
            assert found == FACTS[name], "as it was"
        assert backup_path(path, 6).exists() == (probe != "checked")
        with opened(path, terms) as ledger:
            assert ledger.incarnation == FACTS[name]["incarnation"], (name, probe)
        again = facts(path)
        assert {k: again[k] for k in UNCHANGED} == {k: FACTS[name][k] for k in UNCHANGED}
        assert [change[3] for change in again["changes"]].count("migrated") == 1


def kill_at(cases: list[tuple[Path, str]]) -> list[int]:
    """Open each ledger in a process that SIGKILL ends at its step; how each ended."""
    script = (
        "import json, os, signal, sys\n"
        "from pathlib import Path\n"
        "from tests.agents.upgrade import make_baseline, test_migration as t\n"
        "terms, ended = make_baseline.manifests(), []\n"
        "for path, probe in json.loads(sys.argv[1]):\n"
        "    def die(step):\n"
        "        if step == probe:\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        t.opened(Path(path), terms, probe=die)\n"
        "        os._exit(1)\n"
        "    ended.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "print(json.dumps(ended))\n"
    )
    root = Path(__file__).resolve().parents[3]
    asked = json.dumps([(str(path), probe) for path, probe in cases])
    made = subprocess.run(
        [sys.executable, "-c", script, asked], cwd=root, timeout=300, check=True,
        capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"},
    )  # fmt: skip
    return list(json.loads(made.stdout))


def test_a_step_that_loses_something_is_not_committed(
    tmp_path: Path, terms: Any, monkeypatch: Any
) -> None:
    losses = ("passed", "releases", "peers", "state")
    for table in losses:
        path = copied(tmp_path / table, "gossip/0.ledger")

        def losing(store: Store, table: str = table) -> Any:
            store.db.execute(f"DELETE FROM {table}")
            return {"first_format": 6}

        monkeypatch.setitem(STEPS, 6, losing)
        with pytest.raises(LedgerError, match=r"could not be migrated.*it is as it was"):
            opened(path, terms)
        assert facts(path) == FACTS["gossip/0.ledger"]


def test_a_migration_without_that_check_would_lose_it(
    tmp_path: Path, terms: Any, monkeypatch: Any
) -> None:
    usual = verification.check_store

    def blind(*arguments: Any) -> Any:
        found, header, chain = usual(*arguments)
        return type(found)(True, (), (), "", 0, None, ""), header, chain

    monkeypatch.setattr(migration, "check_store", blind)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        weakened(tmp_path, terms, monkeypatch)


def weakened(tmp_path: Path, terms: Any, monkeypatch: Any) -> None:
    path = copied(tmp_path, "gossip/0.ledger")

    def losing(store: Store) -> Any:
        store.db.execute("DELETE FROM state")
        return {"first_format": 6, "state": 1}

    monkeypatch.setitem(STEPS, 6, losing)
    with pytest.raises(LedgerError, match="could not be migrated"):
        migrate_only(path, terms)


def migrate_only(path: Path, terms: Any) -> None:
    """Without the opening that follows, which checks again."""
    from murmura.agents.ledger.clock import MACHINE
    from murmura.agents.ledger.lock import Lock
    from murmura.agents.ledger.opening import Opening

    manifest = terms["gossip"][0]
    identity = read_ledger(path).identity
    lock, store = Lock(path), Store(path)
    try:
        opening = Opening(path, identity, manifest, KEY, "full", DEVICE, MACHINE)
        migration.migrate(store, opening, lock)
    finally:
        store.close()
        lock.close()


def test_what_cannot_be_trusted_is_not_migrated(tmp_path: Path, terms: Any) -> None:
    cases: dict[str, Any] = {
        "modified": ({}, "UPDATE releases SET epsilon = 0.01 WHERE seq = 1", "breaks the chain"),
        "another key": ({"key": b"x" * 32}, "", "the seal does not match"),
        "no key": ({"key": None}, "", "sealed with a key"),
    }
    for name, (more, statement, expected) in cases.items():
        path = copied(tmp_path / name, "gossip/0.ledger")
        if statement:
            db = sqlite3.connect(path)
            db.execute(statement)
            db.commit()
            db.close()
        before = path.read_bytes()
        with pytest.raises(LedgerError, match=expected):
            opened(path, terms, **more)
        assert path.read_bytes() == before
        assert not backup_path(path, 6).exists()


def test_without_room_for_the_backup_nothing_is_migrated(
    tmp_path: Path, terms: Any, monkeypatch: Any
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    for name in ("gossip/0.ledger", "gossip-killed/0.ledger"):
        path = copied(tmp_path, name)
        with monkeypatch.context() as patched:
            patched.setattr(migration, "copy_marked", full)
            with pytest.raises(LedgerError, match="the disk is full"):
                opened(path, terms)
        assert facts(path) == FACTS[name]
        with opened(path, terms) as ledger:
            assert ledger.migrated_from == 6
            assert ledger.incarnation == FACTS[name]["incarnation"]


def test_the_version_before_restores_the_backup(tmp_path: Path, terms: Any) -> None:
    """The way back: what was released since is not in it, so neighbours are asked first."""
    path = copied(tmp_path, "gossip/0.ledger")
    opened(path, terms).close()
    script = (
        "import sys\n"
        "from murmura.agents.ledger import key_of, restore, verify\n"
        "made = restore(sys.argv[1], sys.argv[2], key_of(sys.argv[3].encode()), by='ana')\n"
        "print(made.releases, verify(sys.argv[2], key_of(sys.argv[3].encode())).ok)\n"
    )
    old = tmp_path / "old.ledger"
    made = subprocess.run(
        [sys.executable, "-c", script, str(backup_path(path, 6)), str(old), baseline.KEY.decode()],
        capture_output=True, text=True, check=True, timeout=120,
        env=os.environ | {"PYTHONPATH": str(installed())},
    )  # fmt: skip
    assert made.stdout.split() == [str(len(FACTS["gossip/0.ledger"]["releases"])), "True"]
    restore(backup_path(path, 6), tmp_path / "new.ledger", KEY, by="ana")
    manifest = terms["gossip"][0]
    with Ledger.open(
        tmp_path / "new.ledger", manifest, "0", Budget(12.0), key=KEY, device=DEVICE
    ) as ledger:
        assert ledger.migrated_from == 6
        assert ledger.restored


def test_a_later_format_is_refused_and_left_alone(tmp_path: Path, terms: Any) -> None:
    path = copied(tmp_path, "gossip/0.ledger")
    opened(path, terms).close()
    db = sqlite3.connect(path)
    db.execute("UPDATE meta SET value = '8' WHERE name = 'format'")
    db.commit()
    db.close()
    before = path.read_bytes()
    for reader in (read_ledger, verify, lambda p: opened(p, terms)):
        with pytest.raises(
            LedgerError, match="has format 8 and this version of murmura reads 6 and 7"
        ):
            reader(path)
    assert path.read_bytes() == before


def test_a_ledger_that_hides_its_migration_is_found(tmp_path: Path) -> None:
    """Format 6 relabelled as 7, without the entry in the chain."""
    path = copied(tmp_path, "gossip/0.ledger")
    from murmura.agents.ledger.opening import write_meta

    store = Store(path)
    write_meta(store, store.meta(), KEY, format=7, first_format=6)
    store.close()
    assert "its format is not the one" in " ".join(verify(path, KEY).problems)


@pytest.mark.parametrize("folder", ["gossip", "gossip-killed", "masked"])
def test_agents_go_on_where_the_version_before_stopped(
    tmp_path: Path, folder: str, terms: Any
) -> None:
    """The open batch in the spool, mixing, sessions and budget: all readings once, and a result."""
    shutil.copytree(FOLDER / folder, tmp_path / folder)
    manifest, problem, keys = terms[folder.split("-")[0]]
    network, text = MemoryNetwork(), io.StringIO()
    nodes: dict[str, Node] = {}
    for label in manifest.labels:
        options = Options(deadline=0.3, resend=0.05, tick=0.005)
        node = Node(manifest, network.transport(), options=options, log=Log(text, "debug"))
        ledger = opened(tmp_path / folder / f"{label}.ledger", terms)
        mechanism = make_mechanism(manifest, problem, label)
        spool = open_spool(ledger, DEVICE, mechanism)
        source = IterableReadings(baseline.READINGS[label])
        node.add(label, ledger, mechanism, source, spool, signing_key=keys.get(label))
        node.start()
        nodes[label] = node
    for _ in range(6000):
        for node in nodes.values():
            node.run(seconds=0.002)
        if all(node.all_done for node in nodes.values()):
            break
    results = {k: node.reporter.result(node.agents[k]) for k, node in nodes.items()}
    for node in nodes.values():
        node.close()
    assert all(result.estimate for result in results.values()), text.getvalue()[-3000:]
    for label in manifest.labels:
        path = tmp_path / folder / f"{label}.ledger"
        assert verify(path, KEY).ok
        was, now = FACTS[f"{folder}/{label}.ledger"], facts(path)
        count = len(was["releases"])
        assert now["releases"][:count] == was["releases"], "what was released stays"
        assert len(now["releases"]) > count
        numbers = [row[1:3] for row in now["releases"]]
        assert len(numbers) == len({tuple(each) for each in numbers}), "nothing twice"
        assert now["spent"][0] > was["spent"][0]
    kinds = {json.loads(line)["kind"] for line in text.getvalue().splitlines()}
    assert not kinds & {"mismatch", "conflicting-releases", "rolled-back"}


@pytest.mark.parametrize("folder", ["gossip", "gossip-killed", "masked"])
def test_an_epoch_that_comes_with_the_migration_loses_nothing_either(
    tmp_path: Path, folder: str, terms: Any
) -> None:
    """The first start of this version finds a new epoch, with a batch open or a query under way."""

    def later(manifest: Any, *rest: Any) -> Any:
        nonce = {"nonce": "1f" * 16} if manifest.masked else {}
        return (replace(manifest, epoch=manifest.epoch + 1, **nonce), *rest)

    changed = {name: later(*parts) for name, parts in terms.items()}
    test_agents_go_on_where_the_version_before_stopped(tmp_path, folder, changed)
