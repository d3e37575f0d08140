"""The project's own files agree with one another: versions, workflows, hooks, make targets."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.conftest import pytest_runtest_makereport

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def workflow(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())
    return loaded


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.M))


def test_the_version_stands_in_one_place() -> None:
    from importlib.metadata import version

    import murmura

    tracked = subprocess.run(
        ["git", "ls-files", "*.py", "*.toml", "*.cff"], cwd=ROOT, capture_output=True, text=True
    )
    places = [
        name
        for name in tracked.stdout.split()
        if re.search(r'^(__version__|version) ?[=:] ?"?\d', (ROOT / name).read_text(), re.M)
    ]
    assert places == ["src/murmura/__init__.py"] or not places  # no git in a source distribution
    assert version("murmura") == murmura.__version__
    assert "version" in PROJECT["project"]["dynamic"]


def test_the_workflow_runs_every_python_and_system_that_is_claimed() -> None:
    claimed = PROJECT["project"]["classifiers"]
    matrix = workflow("test.yml")["jobs"]["test"]["strategy"]["matrix"]
    pythons = [c.rpartition(" :: ")[2] for c in claimed if re.search(r"Python :: 3\.", c)]
    assert matrix["python"] == pythons
    systems = {"ubuntu": "Linux", "macos": "MacOS", "windows": "Windows"}
    for image in matrix["os"]:
        assert any(c.endswith(systems[image.partition("-")[0]]) for c in claimed), image
    assert sys.version_info >= (3, 11)
    assert PROJECT["project"]["requires-python"] == f">={pythons[0]}"


def test_workflows_and_hooks_call_make_targets_that_exist() -> None:
    called = set()
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for job in workflow(path.name)["jobs"].values():
            for step in job["steps"]:
                called |= set(re.findall(r"\bmake ([a-z-]+)", step.get("run", "")))
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    called |= {m for hook in hooks for m in re.findall(r"^make ([a-z-]+)", hook["entry"])}
    called |= set(re.findall(r"^make ([a-z-]+)", (ROOT / ".ci" / "run").read_text(), re.M))
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


def test_dependencies_of_the_project_are_locked_with_hashes() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    groups = [
        *PROJECT["project"]["dependencies"],
        *(one for extra in PROJECT["project"]["optional-dependencies"].values() for one in extra),
        *PROJECT["dependency-groups"]["dev"],
    ]
    for requirement in groups:
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        assert name
        pinned = rf"(?mi)^{re.escape(name[0]).replace('_', '[-_]')}(\[[a-z]+\])?==\S+"
        assert re.search(pinned, lock), f"{requirement} is not in requirements.lock"
    assert "://" not in lock
    assert lock.count("--hash=sha256:") > lock.count("==")
