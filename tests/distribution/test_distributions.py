"""What is in the wheel and in the source distribution, and what a package index shows of them."""

from __future__ import annotations

import re
import subprocess
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from markdown_it import MarkdownIt
from packaging.metadata import Metadata
from packaging.utils import parse_sdist_filename, parse_wheel_filename
from trove_classifiers import classifiers

import veilsum
from tests.distribution.conftest import BuiltDistributions
from tools.environments import read_metadata
from tools.package_page import absolute_links

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DATA = (
    ".csv",
    ".json",
    ".npz",
    ".parquet",
    ".png",
    ".svg",
    ".gif",
    ".woff2",
    ".ttf",
    ".txt",
    ".gz",
)


def tracked(*paths: str) -> set[str]:
    """Files of the repository, also those not committed yet; generated ones are ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not a git repository: which files belong to it is not known")
    return {name for name in done.stdout.splitlines() if (ROOT / name).exists()}


def in_wheel(built: BuiltDistributions) -> set[str]:
    with zipfile.ZipFile(built.wheel) as wheel:
        assert wheel.testzip() is None
        return set(wheel.namelist())


def metadata(built: BuiltDistributions) -> bytes:
    return read_metadata(built.wheel)


def test_the_wheel_holds_the_package_and_nothing_else(built: BuiltDistributions) -> None:
    info = f"veilsum-{veilsum.__version__}.dist-info"
    about = {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt")}
    about |= {f"{info}/licenses/{name}" for name in PROJECT["license-files"]}
    package = {name.removeprefix("src/") for name in tracked("src/veilsum")}
    assert in_wheel(built) == package | about
    assert {"veilsum/py.typed", "veilsum/scenario/template.toml"} <= package


def test_the_source_distribution_holds_the_repository_and_nothing_else(
    built: BuiltDistributions,
) -> None:
    folder = f"veilsum-{veilsum.__version__}"
    with tarfile.open(built.sdist) as archive:
        names = {member.name for member in archive if not member.isdir()}
    assert names == {f"{folder}/{name}" for name in tracked()} | {f"{folder}/PKG-INFO"}


def test_names_of_the_files_say_the_version_and_that_any_system_will_do(
    built: BuiltDistributions,
) -> None:
    name, version, _, tags = parse_wheel_filename(built.wheel.name)
    assert (name, str(version)) == ("veilsum", veilsum.__version__)
    assert {str(tag) for tag in tags} == {"py3-none-any"}
    assert parse_sdist_filename(built.sdist.name) == (name, version)


def test_both_distributions_have_the_same_metadata(built: BuiltDistributions) -> None:
    with tarfile.open(built.sdist) as archive:
        member = archive.extractfile(f"veilsum-{veilsum.__version__}/PKG-INFO")
        assert member is not None
        assert member.read() == metadata(built)


def test_the_metadata_is_valid(built: BuiltDistributions) -> None:
    found = Metadata.from_email(metadata(built), validate=True)
    assert found.license_expression == "MIT"
    assert found.license_files == sorted(PROJECT["license-files"])
    assert found.description_content_type == "text/markdown"
    assert set(found.provides_extra or []) == PROJECT["optional-dependencies"].keys()
    unknown = set(found.classifiers or []) - classifiers
    assert not unknown, f"classifiers that a package index refuses: {unknown}"


def test_all_links_of_the_project_are_below_one_address(built: BuiltDistributions) -> None:
    urls = Metadata.from_email(metadata(built)).project_urls or {}
    assert set(urls) == {"Source", "Documentation", "Issues", "Changelog"}
    assert all(
        url == urls["Source"] or url.startswith(f"{urls['Source']}/") for url in urls.values()
    )
    text = (ROOT / "pyproject.toml").read_text()
    hosts = set(re.findall(r"https?://[^/\"\s]+", text))
    assert len(hosts) == 1, f"addresses of other places: {hosts}"


class Links(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self.feed(MarkdownIt("commonmark").enable("table").render(text))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [(tag, v or "") for name, v in attrs if name in ("href", "src", "srcset")]


def page(built: BuiltDistributions) -> str:
    message = message_from_bytes(metadata(built))
    return str(message.get_payload(decode=True).decode())  # type: ignore[union-attr]


def test_links_of_the_package_page_are_absolute_and_lead_to_files(
    built: BuiltDistributions,
) -> None:
    source = PROJECT["urls"]["Source"]
    ours = re.compile(rf"{re.escape(source)}/(raw|blob)/v{re.escape(veilsum.__version__)}/([^#]+)")
    shown = Links(page(built)).found
    written = Links((ROOT / "README.md").read_text()).found
    assert len(shown) == len(written)
    assert any(not target.startswith(("http", "#")) for _, target in written)
    for (tag, target), (_, before) in zip(shown, written, strict=True):
        assert target.startswith(("https://", "#")), f"{before} became {target}"
        if target != before:
            match = ours.fullmatch(target.partition("#")[0])
            assert match, target
            assert (match[1] == "raw") == (tag in ("img", "source"))
            assert (ROOT / match[2]).exists(), f"README.md links to {before}"


def test_the_page_as_it_is_would_not_do() -> None:
    """The check above finds relative links: README.md has them, and is not what is shown."""
    text = (ROOT / "README.md").read_text()
    assert [target for _, target in Links(text).found if not target.startswith(("https://", "#"))]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[a](docs/a.md#b)", "[a](https://f.example/m/blob/v1/docs/a.md#b)"),
        ("![a](./a.png)", "![a](https://f.example/m/raw/v1/a.png)"),
        (
            "[![a](a.png)](b.md)",
            "[![a](https://f.example/m/raw/v1/a.png)](https://f.example/m/blob/v1/b.md)",
        ),
        ("[a]: b.md", "[a]: https://f.example/m/blob/v1/b.md"),
        ('<img src="a.gif">', '<img src="https://f.example/m/raw/v1/a.gif">'),
        ('<a href="b.md">', '<a href="https://f.example/m/blob/v1/b.md">'),
        ("[a](#b) [c](https://x.example/) [d](mailto:e@x.example)", None),
        ("```python\nx = y[0](z)\n```", None),
    ],
)
def test_relative_links_become_absolute(before: str, after: str | None) -> None:
    made = absolute_links(before, "https://f.example/m/", "1")
    assert made == (after or before)


def listed_data() -> dict[str, str]:
    """The rows of DATA-LICENSES.md: the licence of each file."""
    rows = re.findall(r"^\| `([^`]+)` \|(.*)\|$", (ROOT / "DATA-LICENSES.md").read_text(), re.M)
    return {name: cells.split("|")[-1].strip() for name, cells in rows}


def test_every_data_file_of_the_wheel_has_a_licence(built: BuiltDistributions) -> None:
    data = {name for name in in_wheel(built) if PurePosixPath(name).suffix in DATA}
    data = {name for name in data if ".dist-info/" not in name}
    assert data == listed_data().keys()
    assert set(listed_data().values()) <= {"MIT", "public domain"}
