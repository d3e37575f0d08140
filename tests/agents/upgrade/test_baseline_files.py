"""Messages, states, manifests and archives that the version before wrote."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from murmura.agents import manifest as manifests
from murmura.agents import messages
from murmura.agents.manifest import Manifest
from murmura.agents.masked.archive import MAGIC, from_archive
from murmura.agents.masked.pool import RecordPool
from murmura.agents.protocol import Agent, memory
from murmura.agents.transport.negotiation import LinkVersions
from murmura.agents.versions import MANIFEST, STATE
from murmura.agents.wire import WireError, decode, decode_status, encode, encode_status
from murmura.errors import AgentError, LedgerError
from tests.agents.upgrade import make_baseline as baseline
from tests.agents.upgrade.fleet import installed

FOLDER = baseline.BASELINE
SENT = json.loads((FOLDER / "messages.json").read_text())["messages"]
TERMS = json.loads((FOLDER / "manifest.json").read_text())
FACTS = json.loads((FOLDER / "facts.json").read_text())


def test_the_wheel_is_small_enough_to_be_kept() -> None:
    (wheel,) = FOLDER.glob("*.whl")
    assert wheel.stat().st_size < 1_500_000
    assert sum(p.stat().st_size for p in FOLDER.rglob("*") if p != wheel) < 3_000_000


@pytest.mark.parametrize(("kind", "fields", "frame"), SENT, ids=[row[0] for row in SENT])
def test_messages_of_every_type_are_read_and_written_as_they_were(
    kind: str, fields: Any, frame: str
) -> None:
    data = bytes.fromhex(frame)
    assert data[2] == 5
    status = kind == "StatusMessage"
    message: Any = (decode_status if status else decode)(data)
    assert type(message) is getattr(messages, kind)
    found = json.loads(json.dumps(baseline.plain(tuple(message))))
    assert found[: len(fields)] == fields
    again = encode_status(message) if status else encode(message, 5)
    assert again == data


def written_now() -> list[bytes]:
    """Messages of every type as a new agent writes them to a neighbour that it does not know."""
    versions, frames = LinkVersions(), []
    for kind, _, frame in SENT:
        data = bytes.fromhex(frame)
        status = kind == "StatusMessage"
        frames.append(
            encode_status(decode_status(data)) if status else versions.encode(decode(data))
        )
    return frames


def test_the_version_before_reads_what_is_written_to_it() -> None:
    """By its own code, from its wheel: everything means the same to it."""
    script = (
        "import json, sys\n"
        "from murmura.agents import wire\n"
        "for line in sys.stdin:\n"
        "    data = bytes.fromhex(line)\n"
        "    read = wire.decode_status if data[3] == 5 else wire.decode\n"
        "    message = read(data)\n"
        "    fields = message._replace(fields=message.fields[:34]) if data[3] == 1 else message\n"
        "    print(type(message).__name__, repr(tuple(fields)))\n"
    )
    frames = written_now()
    done = subprocess.run(
        [sys.executable, "-c", script], input="\n".join(frame.hex() for frame in frames),
        capture_output=True, text=True, check=True, timeout=120,
        env=os.environ | {"PYTHONPATH": str(installed())},
    ).stdout.splitlines()  # fmt: skip
    assert len(done) == len(SENT)
    for line, (kind, _, frame) in zip(done, SENT, strict=True):
        data = bytes.fromhex(frame)
        message: Any = (decode_status if kind == "StatusMessage" else decode)(data)
        if kind == "Hello":
            own = message.fields or (b"mu-wire\x06",)
            message = message._replace(fields=own)[:-1]
        assert line == f"{kind} {tuple(message)!r}"


def test_there_are_messages_of_all_types() -> None:
    assert {row[0] for row in SENT} == {
        "Hello", "CumulativeMass", "Attendance", "RecordExchange", "StatusMessage",
    }  # fmt: skip


@pytest.mark.parametrize("name", TERMS)
def test_a_manifest_has_the_same_digest_in_both_versions(name: str) -> None:
    """Otherwise a fleet that is upgraded site by site would fall apart."""
    text, digest = TERMS[name]
    read = Manifest.from_json(text)
    assert read.digest.hex() == digest
    made = baseline.manifests()[name][0]
    assert made.digest.hex() == digest, "from the scenario, too"
    assert made == read
    written = json.loads(made.to_json())
    assert written.pop("version") == MANIFEST.newest
    assert written == json.loads(text)
    assert Manifest.from_json(made.to_json()) == made


@dataclass(frozen=True)
class Later(Manifest):
    """A manifest of a later version, with a term more."""

    most_change: float = 0.0


@pytest.fixture
def later(monkeypatch: Any) -> Any:
    from dataclasses import fields

    monkeypatch.setattr(manifests, "ADDED", (*manifests.ADDED, "most_change"))
    monkeypatch.setattr(Later, "FIELDS", tuple(field.name for field in fields(Later)))

    def made(**more: Any) -> Later:
        text = json.loads(TERMS["gossip"][0]) | more
        return Later.from_json(json.dumps(text))  # type: ignore[return-value]

    return made


def test_an_added_term_is_hashed_only_where_it_is_used(later: Any) -> None:
    text, digest = TERMS["gossip"]
    unused, used = later(), later(most_change=0.5)
    assert unused.digest.hex() == digest
    assert unused.field_digests == Manifest.from_json(text).field_digests
    assert used.digest.hex() != digest
    assert "most_change" not in json.loads(unused.to_json())
    assert json.loads(used.to_json())["most_change"] == 0.5
    assert used.first_difference(unused.field_digests) == (
        "the number of fields (another version of murmura)"
    )
    assert used.first_difference(later(most_change=0.7).field_digests) == "most_change"


def test_a_term_that_were_always_hashed_would_be_found(later: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(manifests, "ADDED", ("clip",))
    with pytest.raises(AssertionError):
        test_an_added_term_is_hashed_only_where_it_is_used(later)


def test_a_manifest_with_a_term_that_is_not_known_is_refused() -> None:
    text = json.loads(TERMS["gossip"][0])
    with pytest.raises(
        AgentError, match="does not know: most_change; use the version that wrote it"
    ):
        Manifest.from_json(json.dumps(text | {"most_change": 0.5}))
    with pytest.raises(AgentError, match="version 3 of the manifest, written by a later murmura"):
        Manifest.from_json(json.dumps(text | {"version": 3}))


def restored(written: str) -> Agent:
    """An agent of the fixtures with this state."""
    made = baseline.manifests()["gossip"][0]
    agent = Agent(made, "0")
    agent.state.incarnation = json.loads(written)[3]
    memory.restore(made.digest, agent.state, agent.mass, agent.links, written.encode())
    return agent


def test_a_state_of_the_version_before_is_read() -> None:
    written = FACTS["gossip/0.ledger"]["state"]
    parts = json.loads(written)
    assert parts[0] == 5 == STATE.oldest
    assert restored(written).state.round == parts[4] > 0
    shorter = json.dumps(parts[:18])
    assert restored(shorter).state.mixed_since == 0
    listed = json.dumps([*parts[:8], [2, 3, 7], *parts[9:]])  # each number without a release
    assert list(restored(listed).mass.skipped) == [2, 3, 7]
    with pytest.raises(LedgerError, match="numbers without a release cannot be read"):
        restored(json.dumps([6, *parts[1:8], "!", *parts[9:]]))
    with pytest.raises(LedgerError, match="version 7 of the state, written by a later murmura"):
        restored(json.dumps([7, *parts[1:]]))
    with pytest.raises(LedgerError, match="version 4 of the state, written by an earlier"):
        restored(json.dumps([4, *parts[1:]]))


def test_an_archive_of_the_version_before_is_read() -> None:
    data = FACTS["masked/0.ledger"]["state"].encode("latin-1")
    assert data
    assert not data.startswith(MAGIC)
    pool = RecordPool(baseline.manifests()["masked"][0].digest, {})
    query, records = from_archive(pool, data)
    assert query == 2
    assert records
    assert from_archive(pool, MAGIC + b"\x02" + data)[0] == query
    with pytest.raises(WireError, match="version 3 of the archive, written by a later murmura"):
        from_archive(pool, MAGIC + b"\x03" + data)


def test_a_spool_of_a_later_version_is_named(tmp_path: Path) -> None:
    from murmura.agents.runtime.spool import NO_SLOT, SpooledReading
    from murmura.agents.runtime.spool_file import FileSpool

    class Marks:
        spool_mark = ""

        def mark_spool(self, mark: str) -> None:
            self.spool_mark = mark

    marks, path = Marks(), tmp_path / "a.spool"
    spool = FileSpool(path, b"s" * 32, marks, "a", "terms")
    spool.append(SpooledReading(1, 1, NO_SLOT, "", (0.5,)))
    spool.close()
    path.write_bytes(b"mmspool2" + path.read_bytes()[8:])
    with pytest.raises(LedgerError, match="version 2 of the spool, written by a later murmura"):
        FileSpool(path, b"s" * 32, marks, "a", "terms")
