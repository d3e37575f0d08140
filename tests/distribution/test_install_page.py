"""docs/install.md shows what was measured, for the versions that are locked."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from docs.install_tables import AGENT, PURPOSE, install_boards, install_sizes, install_wheels
from packaging.utils import canonicalize_name

from tests.distribution.test_extras import NOT_BROUGHT, TESTS
from tools.locks import TEST, LockedPackage, extras, read_lock, versions
from tools.sizes import IMPORTS, processor_seconds
from tools.wheels import PYTHONS, SYSTEMS, covered, parse_page

ROOT = Path(__file__).resolve().parents[2]
REPORT: dict[str, Any] = json.loads((ROOT / "docs" / "install.json").read_text())


def stale(report: dict[str, Any]) -> list[str]:
    """What docs/install.json says of versions that are not the locked ones, or leaves out."""
    locked = versions(read_lock(TEST))
    wrong = []
    if list(report["extras"]) != list(extras()):
        wrong.append(f"extras: {report['extras'].keys() ^ extras().keys()}")
    for extra, each in report["extras"].items():
        direct = {str(canonicalize_name(one.name)) for one in extras().get(extra, [])}
        wrong += [f"{extra}: {name} is missing" for name in direct - each["packages"].keys()]
        wrong += [
            f"{extra}: {name} {version} is not what is locked"
            for name, version in each["packages"].items()
            if version not in locked.get(name, [])
        ]
    named = {name for each in report["extras"].values() for name in each["packages"]}
    wrong += [f"wheels: {name}" for name in sorted(named ^ report["wheels"].keys())]
    wrong += [
        f"{name}: {found} looked up, {locked.get(name)} locked"
        for name, found in report["versions"].items()
        if found != locked.get(name)
    ]
    return wrong


def test_the_measurements_are_of_the_locked_versions() -> None:
    assert not stale(REPORT), "run `make sizes` and `make docs`"


def test_a_changed_lock_is_noticed() -> None:
    old = copy.deepcopy(REPORT)
    old["extras"]["core"]["packages"]["numpy"] = "1.0"
    old["versions"]["eclipse-zenoh"] = ["0.1"]
    del old["wheels"]["rich"]
    assert len(stale(old)) == 3


@pytest.mark.parametrize("extra", NOT_BROUGHT)
def test_what_was_installed_is_what_the_metadata_say(extra: str) -> None:
    found = REPORT["extras"][extra]
    assert not found["packages"].keys() & (NOT_BROUGHT[extra] | TESTS)
    assert found["imports"] == IMPORTS[extra], "run `make sizes`"
    assert found["megabytes"] >= REPORT["extras"]["core"]["megabytes"]
    assert 0 < found["import_seconds"] < 60
    assert PURPOSE[extra]


def test_an_agent_is_far_smaller_than_the_simulator() -> None:
    sizes = {name: each["megabytes"] for name, each in REPORT["extras"].items()}
    assert sizes["agents"] < sizes["sim"] / 2
    assert sizes["agents"] < 322  # what a fleet took before the core was split


def test_the_page_shows_the_measurements() -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    for made in (install_sizes(), install_boards(), install_wheels()):
        assert made in page, "run `make docs`"


def test_what_the_page_says_of_boards_is_so() -> None:
    """The prose beside the tables: 64-bit boards need no compiler, 32-bit ones lack numpy."""
    wheels = REPORT["wheels"]
    needed = {name for extra in AGENT for name in REPORT["extras"][extra]["packages"]}
    compiled = {name for name in needed if "any" not in wheels[name]}
    assert "numpy" in compiled
    assert all(wheels[name]["Linux aarch64"] == REPORT["pythons"] for name in compiled)
    assert wheels["numpy"]["Linux armv7l"] == []


def test_what_was_installed_here_has_wheels_here() -> None:
    """pip took wheels only: a system that is measured cannot lack one."""
    assert REPORT["system"] in REPORT["systems"]
    python = ".".join(REPORT["python"].split(".")[:2])
    compiled = {name: each for name, each in REPORT["wheels"].items() if "any" not in each}
    assert [name for name, each in compiled.items() if python not in each[REPORT["system"]]] == []


HTML = """<!DOCTYPE html><html><body>
<a href="https://files.example/x-1.0-cp311-abi3-manylinux_2_28_aarch64.whl#sha256={a}"
   data-requires-python="&gt;=3.11">x-1.0-cp311-abi3-manylinux_2_28_aarch64.whl</a><br/>
<a href="https://files.example/x-1.0-cp312-cp312-win_amd64.whl#sha256={b}">x-1.0-cp312-cp312-win_amd64.whl</a>
<a href="https://files.example/x-1.0-cp312-cp312-manylinux_2_99_x86_64.whl#sha256={c}"
>x-1.0-cp312-cp312-manylinux_2_99_x86_64.whl</a>
<a href="https://files.example/x-1.0.tar.gz#sha256={d}">x-1.0.tar.gz</a>
</body></html>""".format(a="a" * 64, b="b" * 64, c="c" * 64, d="d" * 64)


def test_wheels_are_matched_by_tag_and_hash() -> None:
    files = parse_page(HTML, "text/html")
    assert files["x-1.0.tar.gz"] == "d" * 64
    package = LockedPackage("x", "1.0", "sys_platform != 'darwin'", tuple(c * 64 for c in "abcd"))
    found = covered([package], files)
    assert found["Linux aarch64"] == list(PYTHONS)  # the stable ABI
    assert found["Windows x86_64"] == ["3.12"]
    assert found["Linux x86_64"] == []  # needs a newer libc
    assert found["Linux armv7l"] == []
    assert found["macOS arm64"] is None  # left out by its marker
    other = LockedPackage("x", "1.0", "", ("d" * 64,))  # the wheels' hashes are not locked
    assert covered([other], files) == {system.name: [] for system in SYSTEMS}


def test_pages_in_json_are_read_alike() -> None:
    files = parse_page(HTML, "text/html")
    listed = [{"filename": name, "hashes": {"sha256": digest}} for name, digest in files.items()]
    text = json.dumps({"files": listed})
    assert parse_page(text, "application/vnd.pypi.simple.v1+json") == files


def test_pure_wheels_run_everywhere() -> None:
    package = LockedPackage("y", "2.0", "", ("e" * 64,))
    assert covered([package], {"y-2.0-py3-none-any.whl": "e" * 64}) == {"any": list(PYTHONS)}


def test_import_times_are_of_the_processor() -> None:
    import sys

    idle = processor_seconds(Path(sys.executable), "import time; time.sleep(0.05)", repeats=1)
    busy = processor_seconds(
        Path(sys.executable), "import time\nwhile time.process_time() < 0.3: pass", repeats=1
    )
    assert idle < busy
    assert busy >= 0.3
    with pytest.raises(SystemExit, match="no_such_module"):
        processor_seconds(Path(sys.executable), "import no_such_module", repeats=1)
