"""The project's own files agree with one another: versions, workflows, hooks, make targets."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import pytest_runtest_makereport
from tools.closure import closure
from tools.locks import RUN, TEST, extras, read_lock

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def workflow(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())
    return loaded


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.M))


def test_the_version_stands_in_one_place() -> None:
    from importlib.metadata import version

    import veilsum

    tracked = subprocess.run(
        ["git", "ls-files", "*.py", "*.toml", "*.cff"], cwd=ROOT, capture_output=True, text=True
    )
    places = [
        name
        for name in tracked.stdout.split()
        if re.search(r'^(__version__|version) ?[=:] ?"?\d', (ROOT / name).read_text(), re.M)
    ]
    assert places == ["src/veilsum/__init__.py"] or not places  # no git in a source distribution
    assert version("veilsum") == veilsum.__version__
    assert "version" in PROJECT["project"]["dynamic"]


def claimed(prefix: str) -> list[str]:
    """What the classifiers say that begin so."""
    found = PROJECT["project"]["classifiers"]
    return [c.rpartition(" :: ")[2] for c in found if re.match(prefix, c)]


def test_only_what_was_run_is_claimed() -> None:
    """The page says what was run; the workflow runs it, and what it runs beyond may fail."""
    page = (ROOT / "docs" / "install.md").read_text()
    tried = re.findall(r"^\| Linux x86_64, Python (3\.\d+) \| (?!not tried)", page, re.M)
    untried = re.findall(r"^\| ([^|]+) \| not tried", page, re.M)
    assert claimed(r"Programming Language :: Python :: 3\.\d") == tried
    assert claimed("Operating System") == ["Linux"]
    test = workflow("test.yml")["jobs"]["test"]
    matrix = test["strategy"]["matrix"]
    assert matrix["python"] == tried
    assert matrix["os"] == ["ubuntu-latest"]
    assert test["continue-on-error"] == "${{ matrix.tried == false }}"
    names = {"ubuntu": "Linux x86_64, Python 3.14", "macos": "macOS", "windows": "Windows"}
    for job in matrix["include"]:
        assert job["tried"] is False
        assert names[job["os"].partition("-")[0]] in untried
    assert PROJECT["project"]["requires-python"] == f">={tried[0]}"


def test_no_page_installs_what_is_not_published() -> None:
    """There is no release: the bare name would install whatever someone else published under it."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    pages = [
        ROOT / name
        for name in tracked.stdout.split()
        if not name.startswith("tests/")
        and name.endswith((".md", ".py", ".toml", ".ipynb", ".yml", ".yaml"))
    ]
    bare = re.compile(
        r"(?:pip|pipx|uv|conda)\s+(?:install|add)(?:\s+--?[\w-]+)*\s+[\"']?veilsum\b(?![-/])"
    )
    assert not [str(page) for page in pages if page.exists() and bare.search(page.read_text())]
    assert bare.search("pip install 'veilsum[sim]'")


def test_workflows_and_hooks_call_make_targets_that_exist() -> None:
    called = set()
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for job in workflow(path.name)["jobs"].values():
            for step in job["steps"]:
                called |= set(re.findall(r"\bmake ([a-z-]+)", step.get("run", "")))
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    called |= {m for hook in hooks for m in re.findall(r"^make ([a-z-]+)", hook["entry"])}
    run = (ROOT / ".ci" / "run").read_text()
    assert "\nCI=true make test-integration" in run, "a skip must be a failure there"
    called |= set(re.findall(r"^(?:CI=true )?make ([a-z-]+)", run, re.M))
    assert called >= {"check", "test", "coverage", "mutants", "quick", "dist"}
    assert called <= targets()


@pytest.mark.parametrize(
    ("chosen", "ci", "keywords", "outcome"),
    [
        (True, "true", {"integration"}, "failed"),
        (True, "", {"integration"}, "skipped"),
        (False, "true", {"integration"}, "skipped"),  # `make test` says where they are run
        (True, "true", {"slow"}, "skipped"),
    ],
)
def test_an_integration_test_that_is_skipped_is_a_failure_with_ci(
    monkeypatch: pytest.MonkeyPatch, chosen: bool, ci: str, keywords: set[str], outcome: str
) -> None:
    monkeypatch.setenv("CI", ci)
    options = SimpleNamespace(getoption={"--integration": chosen}.get)
    item: Any = SimpleNamespace(config=options, keywords=keywords)
    report: Any = SimpleNamespace(skipped=True, outcome="skipped", longrepr="no broker")
    hook = pytest_runtest_makereport(item)
    next(hook)
    with pytest.raises(StopIteration):
        hook.send(report)
    assert report.outcome == outcome


def test_every_make_target_is_documented() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    documented = set(re.findall(r"`make ([a-z-]+)`", text)) | {"run", "clean"}
    assert targets() <= documented


def requirements() -> dict[str, list[Requirement]]:
    return {
        **extras(),
        **{n: list(map(Requirement, each)) for n, each in PROJECT["dependency-groups"].items()},
    }


RUNNING = ("core", "sim", "plot", "build")  # what `make run` needs


@pytest.mark.parametrize(("lock", "names"), [(RUN, RUNNING), (TEST, tuple(requirements()))])
def test_requirements_are_locked_with_hashes(lock: Path, names: tuple[str, ...]) -> None:
    pinned = read_lock(lock)
    for name in names:
        for requirement in requirements()[name]:
            found = [one for one in pinned if one.name == canonicalize_name(requirement.name)]
            assert found, f"{requirement} of {name} is not in {lock.name}: make lock"
            assert all(requirement.specifier.contains(one.version) for one in found), requirement
    assert all(one.hashes for one in pinned)
    assert "://" not in lock.read_text()


def test_the_lock_for_running_has_what_it_runs_and_no_more() -> None:
    wanted = [requirement for name in RUNNING for requirement in requirements()[name]]
    needed = closure(wanted, everywhere=True)
    assert {one.name for one in read_lock(RUN)} <= needed.keys()
    assert "opendp" not in needed
    assert "pytest" not in needed


def test_both_locks_have_the_same_versions() -> None:
    tests = {(one.name, one.version, one.hashes) for one in read_lock(TEST)}
    running = {(one.name, one.version, one.hashes) for one in read_lock(RUN)}
    assert running < tests, f"make lock: {sorted(running - tests)}"


@pytest.mark.parametrize(
    "name", ["Makefile", "deploy/Containerfile", ".github/workflows/test.yml", ".readthedocs.yaml"]
)
def test_a_lock_is_installed_as_it_is(name: str) -> None:
    """Resolved anew, a lock stops working when a package that is wanted with an extra has a release."""
    installs = re.findall(r"pip install.*--require-hashes.*", (ROOT / name).read_text())
    assert installs
    assert [line for line in installs if "--no-deps" not in line] == []


PYTHON_STUB = """#!/bin/sh
[ "$2" = venv ] || exit 0
rm -rf .venv && mkdir -p .venv/bin && cp pip .venv/bin/pip
"""
PIP_STUB = """#!/bin/sh
for last; do :; done
[ ! -e broken ] || exit 1
[ "$1" = check ] || echo "$last" >> installed
"""


class Installation:
    """The Makefile with a Python and a pip that only note what they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copy(ROOT / "Makefile", folder)
        for name in ("requirements.lock", "requirements-test.lock", "pyproject.toml"):
            (folder / name).touch()
        for name, text in (("python", PYTHON_STUB), ("pip", PIP_STUB)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)

    def make(self, stamp: str) -> bool:
        command = ["make", "PYTHON=./python", f".venv/{stamp}"]
        return subprocess.run(command, cwd=self.folder, capture_output=True).returncode == 0

    def installed(self) -> list[str]:
        """What was installed since the last time."""
        notes = self.folder / "installed"
        found = notes.read_text().split() if notes.exists() else []
        notes.unlink(missing_ok=True)
        return found

    def has(self, stamp: str) -> bool:
        return (self.folder / ".venv" / stamp).exists()

    def later(self, name: str) -> None:
        """Change a file after everything that is there."""
        newest = max(path.stat().st_mtime for path in (self.folder / ".venv").iterdir())
        os.utime(self.folder / name, (newest + 1, newest + 1))


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
class TestStamps:
    def test_running_installs_one_lock_and_testing_adds_the_other(self, tmp_path: Path) -> None:
        here = Installation(tmp_path)
        assert here.make(".run")
        assert here.installed() == ["requirements.lock", "."]
        assert not here.has(".test")
        assert here.make(".test")
        assert here.installed() == ["requirements-test.lock"]
        assert here.make(".run")
        assert here.make(".test")
        assert here.installed() == []

    @pytest.mark.parametrize("stamp", [".run", ".test"])
    def test_half_an_installation_is_none(self, tmp_path: Path, stamp: str) -> None:
        here = Installation(tmp_path)
        if stamp == ".test":
            assert here.make(".run")
        (tmp_path / "broken").touch()
        assert not here.make(stamp)
        assert not here.has(stamp)
        (tmp_path / "broken").unlink()
        here.installed()
        assert here.make(stamp)
        assert here.installed()

    def test_a_new_lock_for_running_begins_anew(self, tmp_path: Path) -> None:
        here = Installation(tmp_path)
        assert here.make(".test")
        here.installed()
        here.later("requirements.lock")
        assert here.make(".run")
        assert not here.has(".test")  # what tests need has to be added again
        assert here.installed() == ["requirements.lock", "."]

    def test_a_new_lock_for_testing_that_fails_is_not_taken_for_installed(
        self, tmp_path: Path
    ) -> None:
        here = Installation(tmp_path)
        assert here.make(".test")
        here.later("requirements-test.lock")
        (tmp_path / "broken").touch()
        assert not here.make(".test")
        assert here.has(".run")
        assert not here.has(".test")
