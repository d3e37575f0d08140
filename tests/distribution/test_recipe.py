"""The recipe for conda has the dependencies of pyproject.toml, and no version of its own."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RECIPE: dict[str, Any] = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())
CALLED = {  # by conda; None: part of another package there
    "duckdb": "python-duckdb",
    "matplotlib": "matplotlib-base",
    "mpich": None,
    "prometheus-client": "prometheus_client",
}


def expected(requirements: list[str]) -> set[str]:
    """What an output must require: veilsum's own packages by name, others with their bounds."""
    found = set()
    inner = False
    for requirement in map(Requirement, requirements):
        if requirement.name == "veilsum":
            found |= {f"veilsum-{extra}" for extra in requirement.extras}
            inner = True
        elif (name := CALLED.get(requirement.name, requirement.name)) is not None:
            found.add(f"{name} {requirement.specifier}")
    return found if inner else found | {"veilsum"}


def required(output: dict[str, Any]) -> set[str]:
    pinned = re.compile(r'\$\{\{ pin_subpackage\("([\w-]+)", exact=True\) \}\}')
    return {pinned.sub(r"\1", each) for each in output["requirements"]["run"]}


def outputs(recipe: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {output["package"]["name"]: output for output in recipe["outputs"]}


def differences(recipe: dict[str, Any]) -> list[str]:
    found = outputs(recipe)
    least = PROJECT["requires-python"].removeprefix(">=")
    core = expected(PROJECT["dependencies"]) - {"veilsum"} | {"python >=${{ python_min }}"}
    wanted = {"veilsum": core}
    for extra, requirements in PROJECT["optional-dependencies"].items():
        if extra != "all":
            wanted[f"veilsum-{extra}"] = expected(requirements)
    wrong = [f"outputs: {found.keys() ^ wanted.keys()}"] if found.keys() != wanted.keys() else []
    wrong += [
        f"{name}: {required(found[name]) ^ wanted[name]}"
        for name in wanted.keys() & found.keys()
        if required(found[name]) != wanted[name]
    ]
    if recipe["context"]["python_min"] != least:
        wrong.append(f"python_min: expected {least}")
    return wrong


def test_dependencies_are_those_of_the_project() -> None:
    assert not differences(RECIPE)


def test_a_forgotten_dependency_is_found() -> None:
    changed = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())
    outputs(changed)["veilsum-agents"]["requirements"]["run"].remove("cryptography >=43")
    outputs(changed)["veilsum-sim"]["requirements"]["run"].append("opendp")
    assert len(differences(changed)) == 2


def test_the_version_comes_from_outside() -> None:
    assert RECIPE["context"]["version"] == '${{ env.get("VEILSUM_VERSION") }}'
    assert RECIPE["recipe"]["version"] == "${{ version }}"


def test_entry_point_build_tool_and_licences_are_those_of_the_project() -> None:
    main = outputs(RECIPE)["veilsum"]
    (script,) = PROJECT["scripts"].items()
    assert main["build"]["python"]["entry_points"] == [f"{script[0]} = {script[1]}"]
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    tools = {f"{r.name} {r.specifier}" for r in map(Requirement, build)}
    assert tools <= set(main["requirements"]["host"])
    assert RECIPE["about"]["license"] == PROJECT["license"]
    assert RECIPE["about"]["license_file"] == PROJECT["license-files"]
