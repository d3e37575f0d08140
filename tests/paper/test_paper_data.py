"""Recorded readings: located in a directory, downloaded and checked, or a clear message."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from veilsum import paper
from veilsum.paper import data

BYTES = b"household,day,kwh\n1,0,2.5\n"
NAME, CHECKSUM = "small.csv", hashlib.sha256(BYTES).hexdigest()


@pytest.fixture
def nowhere(monkeypatch: Any, tmp_path: Any) -> Any:
    monkeypatch.setitem(data.CHECKSUMS, NAME, CHECKSUM)
    monkeypatch.delenv("VEILSUM_DATA", raising=False)
    monkeypatch.delenv("VEILSUM_DATA_URL", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def served(directory: Any) -> Any:
    directory.mkdir(exist_ok=True)
    (directory / NAME).write_bytes(BYTES)
    return directory.as_uri()


@pytest.mark.usefixtures("nowhere")
def test_the_message_names_both_ways_and_the_source() -> None:
    with pytest.raises(data.MissingDataError) as caught:
        data.locate(data.DAILY)
    message = str(caught.value)
    for part in ("VEILSUM_DATA", "VEILSUM_DATA_URL", "households_daily_kwh.csv", "CC BY-SA"):
        assert part in message
    assert data.state() == "absent"


def test_a_directory_without_the_file_is_named(nowhere: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("VEILSUM_DATA", str(nowhere))
    with pytest.raises(data.MissingDataError, match=f"VEILSUM_DATA = {nowhere} has no households"):
        data.locate(data.DAILY)


def test_experiments_without_their_data_are_skipped_with_the_reason(nowhere: Any) -> None:
    experiments = [each for each in paper.find() if each.needs_data]
    reports = paper.reproduce(experiments, nowhere / "out", quick=True)
    assert {report.verdict for report in reports} == {"skipped"}
    assert all("VEILSUM_DATA" in report.sentence for report in reports)


def test_a_file_in_the_directory_is_used_if_it_is_the_published_one(
    nowhere: Any, monkeypatch: Any
) -> None:
    """A reproduction writes what compares with the truth: other readings are refused."""
    path = nowhere / "households_daily_kwh.csv"
    path.write_bytes(BYTES)
    monkeypatch.setenv("VEILSUM_DATA", str(nowhere))
    with pytest.raises(data.MissingDataError, match="not the published households_daily_kwh"):
        data.locate(data.DAILY)
    monkeypatch.setitem(data.CHECKSUMS, path.name, data.digest(path))
    assert data.locate(data.DAILY) == path


def test_a_download_is_checked_and_kept(nowhere: Any) -> None:
    address, kept = served(nowhere / "server"), nowhere / "cache"
    path = data.fetch(NAME, address + "/", kept)
    assert path.read_bytes() == BYTES
    (nowhere / "server" / NAME).unlink()
    assert data.fetch(NAME, address, kept) == path  # not fetched twice


def test_a_wrong_checksum_is_refused_and_not_kept(nowhere: Any) -> None:
    address, kept = served(nowhere / "server"), nowhere / "cache"
    (nowhere / "server" / NAME).write_bytes(BYTES + b"more")
    with pytest.raises(data.MissingDataError, match=f"expected {CHECKSUM}"):
        data.fetch(NAME, address, kept)
    assert list(kept.iterdir()) == []


def test_an_address_without_the_file_says_so(nowhere: Any) -> None:
    with pytest.raises(data.MissingDataError, match=r"small\.csv could not be fetched"):
        data.fetch(NAME, (nowhere / "none").as_uri(), nowhere / "cache")
    assert list((nowhere / "cache").iterdir()) == []
    with pytest.raises(data.MissingDataError, match="must begin with one of https"):
        data.fetch(NAME, "ftp://somewhere", nowhere / "cache")


def test_the_address_of_the_environment_is_used(nowhere: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("VEILSUM_DATA_URL", served(nowhere / "server"))
    assert data.locate(NAME).read_bytes() == BYTES
