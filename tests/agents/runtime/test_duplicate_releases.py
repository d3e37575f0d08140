"""Lost and copied ledgers, with real ledgers: the same reading is not released twice unnoticed."""

import io
import json
import shutil
import time
from dataclasses import replace
from typing import Any

import pytest

from tests.agents.runtime.test_node import problem
from veilsum.agents.ledger import Ledger, read_ledger
from veilsum.agents.ledger.maintenance import backup, restore
from veilsum.agents.ledger.writer import LedgerWriter
from veilsum.agents.manifest import Manifest
from veilsum.agents.protocol import Options
from veilsum.agents.release import ReleaseMechanism
from veilsum.agents.runtime import IterableReadings, Log, Node
from veilsum.agents.transport.memory import MemoryNetwork
from veilsum.privacy.accounting import Budget

MADE = problem("average", rounds=30)
TERMS = Manifest.of(MADE, "names")
DEVICE = {label: label.encode() * 32 for label in "012"}


class Deployment:
    """A node for each agent, so that one can be stopped, robbed and started again."""

    def __init__(self, folder: Any, terms: Any = TERMS, labels: Any = "012") -> None:
        self.network, self.folder, self.terms = MemoryNetwork(), folder, terms
        self.nodes: dict[str, Any] = {}
        self.logs: dict[str, Any] = {}
        for label in labels:
            self.start(label)

    def start(self, label: Any, folder: Any = None, name: Any = None, secure: Any = True) -> Any:
        log = io.StringIO()
        options = Options(deadline=0.2, resend=0.03, linger=0.2)
        node = Node(self.terms, self.network.transport(), options=options, log=Log(log))
        path = (folder or self.folder) / f"{label}.ledger"
        device = DEVICE[label] if secure else None
        ledger = Ledger.open(path, self.terms, label, Budget(1.0), device=device)
        node.add(
            label,
            ledger,
            ReleaseMechanism(self.terms, MADE, label),
            IterableReadings([4.0 + int(label)]),
        )
        node.start()
        self.nodes[name or label], self.logs[name or label] = node, log
        return node

    def run(self, until: Any, seconds: Any = 20.0) -> Any:
        end = time.monotonic() + seconds
        while not until() and time.monotonic() < end:
            for node in list(self.nodes.values()):
                node.run(seconds=0.002)
            self.network.advance(time.monotonic())
        return until()

    def done(self, *names: Any) -> Any:
        return all(self.nodes[name].all_done for name in names or self.nodes)

    def reason(self, name: Any, label: Any = None) -> Any:
        return self.nodes[name].agents[label or name[0]].done.reason

    def said(self, name: Any, kind: Any) -> Any:
        lines = map(json.loads, self.logs[name].getvalue().splitlines())
        return [line for line in lines if line["kind"] == kind]

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()


@pytest.fixture
def sites() -> Any:
    made = []

    def maker(*args: Any, **options: Any) -> Any:
        made.append(Deployment(*args, **options))
        return made[-1]

    yield maker
    for one in made:
        one.close()


def finished(sites: Any, folder: Any) -> None:
    first = sites(folder)
    assert first.run(first.done)
    first.close()
    assert read_ledger(folder / "0.ledger").status.spent.epsilon == 1.0


def lose(folder: Any) -> None:
    for path in folder.glob("0.ledger*"):
        path.unlink()


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_ledger_deleted_with_its_lock_releases_nothing_anew(
    sites: Any, tmp_path: Any, epoch: Any
) -> None:
    """It used to draw the same reading again, in the same or a new epoch, with "spent 1.0"."""
    finished(sites, tmp_path)
    lose(tmp_path)
    again = sites(tmp_path, replace(TERMS, epoch=epoch))
    assert again.run(lambda: again.done("0"))
    assert again.reason("0") == "conflicting-releases"
    assert read_ledger(tmp_path / "0.ledger").entries == ()
    (line, *_) = again.said("0", "conflicting-releases")
    assert line["level"] == "warning"
    assert "go on under a new name" in line["text"]
    near = [line for name in "12" for line in again.said(name, "refused")]
    near += [line for name in "12" for line in again.said(name, "conflicting-releases")]
    assert {line["peer"] for line in near} == {"0"}


def test_without_a_device_key_too(sites: Any, tmp_path: Any) -> None:
    finished(sites, tmp_path)
    lose(tmp_path)
    again = sites(tmp_path, labels="12")
    again.start("0", secure=False)
    assert again.run(lambda: again.done("0"))
    assert again.reason("0") == "conflicting-releases"
    assert read_ledger(tmp_path / "0.ledger").entries == ()


def test_nothing_is_released_before_a_neighbour_has_spoken(sites: Any, tmp_path: Any) -> None:
    site = sites(tmp_path, labels="0")
    site.run(lambda: False, seconds=0.6)
    assert site.nodes["0"].agents["0"].ledger.releases == 0
    site.start("1")
    site.start("2")
    assert site.run(site.done)
    assert site.nodes["0"].agents["0"].ledger.releases == 1


def test_of_a_ledger_and_its_copy_one_releases_and_the_other_is_refused(
    sites: Any, tmp_path: Any
) -> None:
    """Two live copies used to release with different noise, and the neighbours logged nothing."""
    site = sites(tmp_path, labels="0")  # asks and hears nobody: nothing is released yet
    site.run(lambda: False, seconds=0.2)
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in tmp_path.glob("0.ledger*"):
        shutil.copy(path, copy / path.name)
    site.start("0", folder=copy, name="0 copy")
    site.start("1")
    site.start("2")
    assert site.run(lambda: site.done("1", "2", "0 copy"))
    site.run(lambda: False, seconds=0.3)
    ledgers = [site.nodes[name].agents["0"].ledger for name in ("0", "0 copy")]
    assert [ledger.start for ledger in ledgers] == [1, 2]
    assert sum(ledger.releases for ledger in ledgers) == 1, "one reading, two noises"
    reported = [line for name in "12" for line in site.said(name, "refused")]
    reported += [line for name in "12" for line in site.said(name, "conflicting-releases")]
    assert {line["peer"] for line in reported} == {"0"}
    assert any("copied" in line["text"] or "another copy" in line["text"] for line in reported)


def test_members_that_share_a_certificate_are_remembered_apart() -> None:
    shared = replace(TERMS, members=(("0", "box"), ("1", "box"), ("2", "two")))
    assert [shared.lasting_name(label) for label in "012"] == ["box/0", "box/1", "two"]


def restored(sites: Any, folder: Any, later: bool) -> Any:
    """A deployment whose agent 0 continues from a backup made before or after its release."""
    first = sites(folder, labels="0" if later else "012")
    first.run(lambda: later or first.done(), seconds=0.1 if later else 20.0)
    if later:
        backup(folder / "0.ledger", folder / "copy")
        first.start("1")
        first.start("2")
        assert first.run(first.done)
    else:
        backup(folder / "0.ledger", folder / "copy")
    first.close()
    lose(folder)
    restore(folder / "copy", folder / "0.ledger", by="tests")
    return first


def test_a_backup_from_before_a_release_does_not_release_it_again(
    sites: Any, tmp_path: Any
) -> None:
    """Backup, release more, restore, start: the neighbours remember, and nothing is released."""
    restored(sites, tmp_path, later=True)
    again = sites(tmp_path)
    assert again.run(lambda: again.done("0"))
    assert again.reason("0") == "conflicting-releases"
    assert read_ledger(tmp_path / "0.ledger").entries == ()


@pytest.mark.parametrize("weakened", [False, True])
def test_a_restored_ledger_waits_for_all_neighbours(
    sites: Any, tmp_path: Any, monkeypatch: Any, weakened: bool
) -> None:
    """One neighbour has lost its memory, and the other, who remembers, is late.

    The quorum is reached without it, and is not enough for a ledger that was restored.
    """
    restored(sites, tmp_path, later=True)
    for path in tmp_path.glob("1.ledger*"):
        path.unlink()
    if weakened:
        monkeypatch.setattr(LedgerWriter, "restored", False)
    again = sites(tmp_path, replace(TERMS, quorum=2, gathering=0.2), labels="01")
    again.run(lambda: False, seconds=1.2)
    releases = again.nodes["0"].agents["0"].ledger.releases
    assert releases == (1 if weakened else 0)  # without the wait, the same reading once more


def test_a_backup_that_lacks_nothing_goes_on(sites: Any, tmp_path: Any) -> None:
    restored(sites, tmp_path, later=False)
    before = read_ledger(tmp_path / "0.ledger").entries
    again = sites(tmp_path)
    assert again.run(again.done)
    refusals = {"conflicting-releases", "rolled-back"}
    assert not {again.reason(label) for label in "012"} & refusals
    assert read_ledger(tmp_path / "0.ledger").entries == before
