"""No file, object, log or text has a secret of a secure sum: searched at every moment of a step."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.sums_on_board.around import DAY, DEADLINE, SumFleet, asked
from veilsum.errors import FleetError
from veilsum.fleet import sums
from veilsum.fleet.keeper_key import made_key
from veilsum.fleet.secure_sum import deal as secure_deal
from veilsum.fleet.secure_sum.field import P, digest
from veilsum.privacy.exact.entropy import read

Patch = pytest.MonkeyPatch


def spelled(data: bytes) -> Iterator[bytes]:
    """Bytes in all the ways in which they may be written."""
    for one in (data, data[::-1]):
        yield one
        yield one.hex().encode()
        yield one.hex().upper().encode()
        yield base64.b64encode(one).rstrip(b"=")[:-1]
        yield base64.urlsafe_b64encode(one).rstrip(b"=")[:-1]


def numbers(value: int) -> Iterator[bytes]:
    """A whole number, and the element of the field that it is."""
    for one in {value % P, abs(value)}:
        yield str(one).encode()
        yield from spelled(one.to_bytes(8, "big"))
    yield float(value).hex().encode()


class Search:
    """Collects the secrets of a run, and looks for them."""

    def __init__(self, patch: Patch) -> None:
        self.secrets: dict[str, bytes] = {}
        self.values: dict[str, int] = {}
        self._watch(patch)

    def _watch(self, patch: Patch) -> None:
        hedge = secure_deal.hedge

        def key(path: Path) -> bytes:
            found = made_key(path)
            self.secrets[f"key {path.parent.name}"] = found
            return found

        def seed(entropy: Any, count: int) -> bytes:
            found = read(entropy, count)
            self.secrets[f"seed {len(self.secrets)}"] = found
            return found

        def hedged(query: Any, site: str, values: Any, own: bytes) -> bytes:
            found = hedge(query, site, values, own)
            self.secrets[f"hedge {site}"] = found
            self.secrets[f"ephemeral {site}"] = digest(b"ephemeral", found)
            self.values[f"v {site}"] = int(values[0])
            return found

        patch.setattr(sums, "made_key", key)
        patch.setattr(sums, "read", seed)
        patch.setattr(secure_deal, "hedge", hedged)

    def learn(self, fleet: SumFleet, question: Any) -> None:
        """What sites added up, and their noise."""
        for name, (v, *_) in fleet.dealt.items():
            (x,) = fleet.exact(question, name)
            self.values |= {f"v {name}": v, f"eta {name}": v - x, f"x {name}": x}

    def patterns(self) -> dict[bytes, str]:
        """What is searched for, and what it is."""
        found = {text: what for what, one in self.secrets.items() for text in spelled(one)}
        for what, value in self.values.items():
            found |= dict.fromkeys(numbers(value), what)
        return found

    def in_(self, texts: Sequence[tuple[str, bytes]]) -> list[str]:
        """Where a secret stands."""
        patterns = self.patterns()
        return [
            f"{what} in {where}"
            for where, data in texts
            for text, what in patterns.items()
            if text in data
        ]


def files(fleet: SumFleet) -> list[tuple[str, bytes]]:
    """All files of all sites but keys, and all objects of the store."""
    found = [
        (str(path.relative_to(fleet.folder)), path.read_bytes())
        for path in sorted(fleet.folder.rglob("*"))
        if path.is_file() and not path.name.startswith("keeper-")
    ]
    return found + list(fleet.objects.items())


def test_no_secret_is_anywhere(
    tmp_path: Path, monkeypatch: Patch, caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    search = Search(monkeypatch)
    fleet = SumFleet(tmp_path, 5, monkeypatch, noise=True)
    for k, name in enumerate(fleet.names):  # numbers of many digits, that nothing has by chance
        rows = [7.123456 + k + 0.0271828 * i for i in range(41 + k)]
        fleet.sources[name] = type(fleet.sources[name])({"kwh": rows})
    question = asked()
    fleet.ask(question)
    said: list[str] = []
    found: list[str] = []

    def look(moment: str) -> None:
        if not fleet.moments.quiet:
            search.learn(fleet, question)
            found.extend(f"{one} at {moment}" for one in search.in_(files(fleet)))

    monkeypatch.setattr(fleet.moments, "pass_by", look)
    for _ in range(4):
        for name in fleet.keys:
            fleet.moments.quiet = name not in ("desk", "s0")
            said += fleet.rounds(1, name)
        fleet.moments.quiet = True
        search.learn(fleet, question)
        found += search.in_(files(fleet))
        keys = fleet.key_files()
    fleet.now = DEADLINE + 8 * DAY
    said += fleet.rounds(1)
    assert fleet.read(question) is not None
    assert keys == []
    kinds = {what.split()[0] for what in {**search.secrets, **search.values}}
    assert kinds == {"key", "seed", "hedge", "ephemeral", "v", "eta", "x"}
    out = capfd.readouterr()
    texts = [("said", "\n".join(said)), ("log", caplog.text), ("out", out.out), ("err", out.err)]
    found += search.in_([(where, text.encode()) for where, text in texts])
    assert found == []


def test_the_search_finds_what_is_there(tmp_path: Path, monkeypatch: Patch) -> None:
    """Twins: a Deal whose vector is kept, and a keeper whose key is in the ledger."""
    search = Search(monkeypatch)
    fleet = SumFleet(tmp_path, 5, monkeypatch, noise=True)
    question = asked()
    fleet.ask(question)
    fleet.rounds(2)
    search.learn(fleet, question)
    assert search.in_(files(fleet)) == []
    with fleet.open("s0") as site, site.file.transaction():
        site.file.set("vector", str(search.values["v s0"]).encode())
    with fleet.open("s1") as site, site.file.transaction():
        site.file.set("secret", search.secrets["key s1"])
    found = search.in_(files(fleet))
    assert any(one.startswith("v s0 in s0/site.db") for one in found)
    assert any(one.startswith("key s1 in s1/site.db") for one in found)


@pytest.mark.parametrize("where", ["deal", "answer"])
def test_errors_say_nothing(where: str, tmp_path: Path, monkeypatch: Patch) -> None:
    """A step that fails at its most secret moment."""
    search = Search(monkeypatch)
    fleet = SumFleet(tmp_path, 5, monkeypatch, noise=True)
    question = asked()
    fleet.ask(question)
    fleet.rounds(1 if where == "deal" else 2)
    shipped = getattr(sums, where)

    def failing(*given: Any) -> Any:
        shipped(*given)
        raise FleetError("it fails")

    with monkeypatch.context() as patch:
        patch.setattr(sums, where, failing)
        said = fleet.rounds(2)
    search.learn(fleet, question)
    assert any("it fails" in line for line in said)
    assert search.in_([("said", "\n".join(said).encode()), *files(fleet)]) == []
