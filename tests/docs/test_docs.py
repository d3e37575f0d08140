"""The docs run, and what is generated in them is up to date."""

import importlib.util
import inspect
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from murmura.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def generator() -> Any:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATE = generator()


def blocks(page: Any, language: Any) -> Any:
    return [code for kind, code in BLOCK.findall(page.read_text()) if kind == language]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_examples_run_in_order(page: Any, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "docs"}
    for number, code in enumerate(blocks(page, "python"), 1):
        exec(compile(code, f"{page.name}, example {number}", "exec"), names)
    assert "__name__" in names


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Any) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_rows_of_the_api_are_whole_sentences() -> None:
    rows = [line for line in GENERATE.api().splitlines() if line.startswith("| `")]
    assert len(rows) > 300
    cut = [row for row in rows if not row.endswith((". |", "? |", "alias |"))]
    assert not cut, "\n".join(cut)


@pytest.mark.parametrize(
    "name", [n for n in GENERATE.PARTS if n not in ("benchmarks", "agents-measured")]
)
def test_generated_parts_are_up_to_date(name: Any) -> None:
    """`make docs` renews them; the benchmarks are as they were measured, and not measured here."""
    used = False
    for page in PAGES:
        for match in GENERATE.MARK.finditer(page.read_text()):
            if match["name"] == name:
                used = True
                assert GENERATE.renew(match[0], {}) == match[0], f"run `make docs`: {page.name}"
    assert used, f"no page shows the generated part {name}"


def test_schemas_are_up_to_date() -> None:
    made = GENERATE.schemas()
    assert {path.name for path in made} == {"scenario.schema.json", "agent.schema.json"}
    for path, text in made.items():
        assert path.read_text() == text, f"run `make docs`: {path.name}"


def test_benchmark_table_is_what_was_measured() -> None:
    page = ROOT / "docs" / "performance.md"
    assert GENERATE.benchmarks() in page.read_text()


def test_every_public_name_has_a_docstring() -> None:
    for package in GENERATE.PACKAGES:
        module = importlib.import_module(package)
        for name in GENERATE.public_names(module):
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isroutine(thing):
                assert inspect.getdoc(thing), f"{package}.{name} says nothing of itself"


def test_every_verb_is_documented_and_helps() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    for name, command in GENERATE.commands():
        assert f"### murmura {name}" in text
        assert GENERATE.help_of(command)
        assert CliRunner().invoke(app, [*name.split(), "--help"]).exit_code == 0


def test_examples_of_scenarios_are_scenarios() -> None:
    from murmura.scenario import Scenario

    found = sorted((ROOT / "examples").glob("*.toml"))
    assert len(found) >= 4
    for path in found:
        assert Scenario.load(path).variants


def test_console_examples_name_real_targets() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        for block in blocks(page, "console"):
            for line in block.strip().splitlines():
                words = shlex.split(line, comments=True)
                assert words[0] in {"make", "murmura"}
                if words[0] == "make":
                    assert f"\n{words[1]}:" in makefile
