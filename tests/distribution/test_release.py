"""The release workflow: who may publish, what is checked before, and the bill of materials."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

import veilsum
from tools.closure import closure
from tools.locks import TEST, extras, read_lock
from tools.release_check import main, problems

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "https://forge.example/veilsum/veilsum"


def workflow(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())
    return loaded


def test_only_the_job_that_publishes_has_an_identity() -> None:
    jobs = workflow("release.yml")["jobs"]
    able = {name for name, job in jobs.items() if "id-token" in job.get("permissions", {})}
    assert able == {"publish"}
    assert workflow("release.yml")["permissions"] == {"contents": "read"}
    assert not any("run" in step for step in jobs["publish"]["steps"])  # no code of ours with it
    assert not any("checkout" in step["uses"] for step in jobs["publish"]["steps"])
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert "secrets." not in text
    assert "password" not in text


def test_distributions_are_checked_before_and_attested_when_published() -> None:
    jobs = workflow("release.yml")["jobs"]
    assert jobs["publish"]["needs"] == "build"
    assert any("tools/release_check.py" in step.get("run", "") for step in jobs["build"]["steps"])
    used = [step["uses"].partition("@")[0] for step in jobs["publish"]["steps"]]
    publish = used.index("pypa/gh-action-pypi-publish")
    assert used.index("actions/attest-build-provenance") < publish
    assert used.index("actions/attest-sbom") < publish
    assert jobs["publish"]["steps"][publish]["with"]["attestations"] is True


def test_a_release_has_its_distributions_and_its_bill_of_materials() -> None:
    """Made after they were published, by a job that runs nothing of the repository."""
    jobs = workflow("release.yml")["jobs"]
    writing = {
        n for n, job in jobs.items() if job.get("permissions", {}).get("contents") == "write"
    }
    assert writing == {"attach"}
    attach = jobs["attach"]
    assert attach["needs"] == "publish"
    assert attach["permissions"] == {"contents": "write"}
    fetched = {s["with"]["name"]: s["with"]["path"] for s in attach["steps"] if "uses" in s}
    (command,) = [shlex.split(step["run"]) for step in attach["steps"] if "run" in step]
    assert command[:3] == ["gh", "release", "create"]
    assert {f"{fetched['dist']}/*", f"{fetched['sbom']}/veilsum.cdx.json"} <= set(command)
    uploaded = [s["with"] for s in jobs["build"]["steps"] if "upload-artifact" in s.get("uses", "")]
    assert {(each["name"], each["path"]) for each in uploaded} == {
        ("dist", "dist"), ("sbom", "veilsum.cdx.json"),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["test.yml", "nightly.yml", "release.yml"])
def test_actions_are_pinned_and_jobs_may_only_read(name: str) -> None:
    found = workflow(name)
    assert found["permissions"] == {"contents": "read"}
    for job in found["jobs"].values():
        assert "timeout-minutes" in job
        for step in job["steps"]:
            if "uses" in step:
                assert re.fullmatch(r"[\w.-]+/[\w.-]+@(v\d+|release/v\d+)", step["uses"]), step


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A tree of which everything agrees, for the tag v0.1.0 or whatever the version is."""
    (tmp_path / "src" / "veilsum").mkdir(parents=True)
    (tmp_path / "dist").mkdir()
    for name in ("pyproject.toml", "src/veilsum/__init__.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    version = veilsum.__version__
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {version} (2026-01-31)\n")
    for name in (f"veilsum-{version}-py3-none-any.whl", f"veilsum-{version}.tar.gz"):
        (tmp_path / "dist" / name).touch()
    return tmp_path


def test_a_release_of_which_everything_agrees_is_published(release: Path) -> None:
    assert problems(release, f"v{veilsum.__version__}", ADDRESS) == []


def test_a_release_that_does_not_agree_is_not(release: Path) -> None:
    tag = f"v{veilsum.__version__}"
    assert "tag" in problems(release, "v99.0.0", ADDRESS)[0]
    other = problems(release, tag, "https://forge.example/somebody/veilsum")
    assert len(other) == 4
    assert all("[project.urls]" in line for line in other)
    (release / "CHANGELOG.md").write_text("## Unreleased\n")
    (release / "dist" / "notes.txt").touch()
    changelog, dist = problems(release, tag, ADDRESS)
    assert "CHANGELOG.md" in changelog
    assert "notes.txt" in dist


def test_the_check_needs_a_tag_and_an_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["v1.0.0"]) == 2
    assert "usage" in capsys.readouterr().err


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    pytest.importorskip("cyclonedx", reason="cyclonedx-python-lib is in requirements-test.lock")
    from tools.sbom import bill, written

    found: dict[str, Any] = json.loads(written(bill()))  # which checks it against the schema
    return found


def test_the_bill_of_materials_lists_what_extras_bring(bill: dict[str, Any]) -> None:
    listed = {(each["name"], each["version"]) for each in bill["components"]}
    locked = {(one.name, one.version) for one in read_lock(TEST)}
    assert listed < locked
    needed = closure([requirement for each in extras().values() for requirement in each])
    assert needed.keys() <= {name for name, _ in listed}
    assert not {"pytest", "opendp", "sphinx", "hatchling"} & {name for name, _ in listed}
    assert bill["specVersion"] == "1.6"
    assert bill["metadata"]["component"]["version"] == veilsum.__version__


def test_the_bill_says_hashes_licences_and_what_needs_what(bill: dict[str, Any]) -> None:
    found = {each["name"]: each for each in bill["components"]}
    (files,) = found["eclipse-zenoh"]["externalReferences"]
    hashes = next(one.hashes for one in read_lock(TEST) if one.name == "eclipse-zenoh")
    assert {each["content"] for each in files["hashes"]} == set(hashes)
    assert found["rich"]["scope"] == "required"
    assert found["rich"]["licenses"][0]["license"]["id"] == "MIT"
    assert found["scipy"]["scope"] == "optional"
    needs = {each["ref"]: each.get("dependsOn", []) for each in bill["dependencies"]}
    assert found["pydantic-core"]["bom-ref"] in needs[found["pydantic"]["bom-ref"]]
    assert "://" not in json.dumps({k: v for k, v in bill.items() if k != "$schema"})


def test_a_bill_that_does_not_fit_the_schema_is_refused(bill: dict[str, Any]) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    check = JsonStrictValidator(SchemaVersion.V1_6)
    one = bill["components"][0]
    short = {**bill, "dependencies": [], "components": [one]}
    assert check.validate_str(json.dumps(short)) is None
    short["components"] = [{**one, "type": "spice"}]
    assert check.validate_str(json.dumps(short)) is not None
