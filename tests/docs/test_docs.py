"""The docs run, and what is generated in them is up to date."""

import importlib.util
import inspect
import re
import shlex
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.docs.pages import DOCS, PROJECT, ROOT, name_of
from veilsum.cli.app import app

PAGES = [*PROJECT, *DOCS]
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


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_examples_run_in_order(page: Any, tmp_path: Any, monkeypatch: Any) -> None:
    if "shell-session" in page.read_text():
        return  # its files are programs, which `test_fleet_tutorials.py` plays
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "docs"}
    for number, code in enumerate(blocks(page, "python"), 1):
        exec(compile(code, f"{page.name}, example {number}", "exec"), names)
    assert "__name__" in names


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


def test_the_picture_of_make_run_has_its_screen() -> None:
    example = ROOT / "examples" / "us-power-grid.toml"
    picture = GENERATE.gallery.picture_of(example)
    assert f"](images/examples/{picture.name})" in (ROOT / "docs" / "results.md").read_text()
    drawn = GENERATE.gallery.screen_of(picture)
    assert drawn == str(GENERATE.main_answers()), (
        "python docs/generate.py --draw examples/us-power-grid"
    )


def test_schemas_are_up_to_date() -> None:
    made = GENERATE.schemas()
    assert {path.name for path in made} == {"scenario.schema.json", "agent.schema.json"}
    for path, text in made.items():
        assert path.read_text() == text, f"run `make docs`: {path.name}"


def test_benchmark_tables_are_what_was_measured() -> None:
    text = (ROOT / "docs" / "performance.md").read_text()
    assert GENERATE.benchmarks() in text
    assert GENERATE.agents_measured() in text


def test_what_was_not_measured_says_so(tmp_path: Any, monkeypatch: Any) -> None:
    (tmp_path / "benchmarks").mkdir()
    row = '{"what": "a", "measured": 1.0, "target": "< 2", "detail": "b"}'
    (tmp_path / "benchmarks" / "some.json").write_text(f'{{"rows": [{row}]}}')
    monkeypatch.setattr(GENERATE, "ROOT", tmp_path)
    found = GENERATE._measured("some.json", ("a", "c")).splitlines()[2:]
    assert found == ["| a | 1 | < 2 | b |", "| c | not yet |  |  |"]


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
        assert f"## veilsum {name}" in text
        assert GENERATE.help_of(command)
        assert CliRunner().invoke(app, [*name.split(), "--help"]).exit_code == 0


def test_examples_of_scenarios_are_scenarios() -> None:
    from veilsum.scenario import Scenario

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
                assert words[0] in {"make", "veilsum"}
                if words[0] == "make":
                    assert f"\n{words[1]}:" in makefile


README = (ROOT / "README.md").read_text()


def test_the_readme_is_one_screen_with_one_picture_and_a_real_output() -> None:
    assert [match["name"] for match in GENERATE.MARK.finditer(README)] == ["first-ask", "four-ways"]
    assert len(README.splitlines()) <= 60
    assert len(GENERATE.MARK.sub("", README).split()) <= 250
    assert re.findall(r"!\[[^]]*\]\((\S+)\)", README) == ["docs/images/run.gif"]
    assert "refuted" not in README.lower()


def test_the_page_about_ask_is_short_and_its_table_is_drawn() -> None:
    page = ROOT / "docs" / "ask.md"
    assert len(GENERATE.MARK.sub("", page.read_text()).split()) <= 1000
    parts = GENERATE.ask_parts
    assert parts.drawn() == parts.TABLE.read_text(), "docs/ask_parts.py draws it"


def test_the_page_of_derivations_is_short_and_names_every_question() -> None:
    page = (ROOT / "docs" / "ask-derivations.md").read_text()
    assert len(GENERATE.MARK.sub("", page).split()) <= 1100
    named = set(re.findall(r"^\| `([\w-]+)`", GENERATE.PARTS["sensitivities"](), re.MULTILINE))
    assert named == set(GENERATE.ask_parts.QUESTIONS)


def test_every_command_of_the_readme_exists() -> None:
    """No door to what does not exist."""
    verbs = {name for name, _ in GENERATE.commands()}
    named = set(re.findall(r"`veilsum (\w+)", README)) | set(
        re.findall(r"\$ veilsum (\w+)", README)
    )
    assert {"ask", "init", "run", "reproduce", "up", "report"} <= named <= verbs


def test_the_four_ways_have_their_formulas() -> None:
    """Central noise is one draw; here sqrt(n/h) times that, h honest; two servers draw two; n agents n."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in GENERATE.PARTS["four-ways"]().splitlines()[2:]]  # fmt: skip
    n, colluders, absent = 969, 190, 96
    errors = [1.0, (n / (n - colluders - absent)) ** 0.5, 2**0.5, n**0.5]
    for row, error in zip(rows, errors, strict=True):
        assert float(row[1]) == pytest.approx(error, rel=0.01)
        assert row[2], f"{row[0]}: no assumption"
        assert row[3], f"{row[0]}: no cost"
    assert f"{colluders} members" in rows[1][2]
    assert f"{absent} are absent" in rows[1][2]


def test_the_short_table_has_the_errors_of_the_runs() -> None:
    """Errors, and what is sent for them; and what absence costs is said."""
    results = GENERATE.main_answers().results
    short = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in GENERATE.short_table(results).splitlines()[2:]
    ]
    paper, proved, masked = short
    assert GENERATE.kilobytes(results["masked"].problem) in masked[0]
    for row, status, names in (
        (paper, "refuted", ("offline-signal", "offline-jacobi")),
        (proved, "proved", ("local-average", "local")),
    ):
        assert row[1] == status
        for cell, name in zip(row[2:4], names, strict=True):
            assert float(cell) == pytest.approx(results[name].errors.total, rel=0.01)
            assert results[name].guarantee.status == status
    assert all(float(one) < float(other) for one, other in zip(paper[2:], proved[2:], strict=True))
    assert (paper[-1], proved[-1]) == ("0.0014", "0.98")
    assert masked[1:] == ["proved", "", "", "0.017 if nobody is absent, 0.334 if 494 are"]


def test_the_results_say_where_the_papers_noise_holds() -> None:
    said = " ".join(GENERATE.caveats(GENERATE.main_answers().results).split())
    assert "no noise can be proved private without a public floor" in said
    assert "delta = 2.7e-41: proved" in said
    assert "At epsilon 10 and a floor of 100 it spends delta = 0.763" in said
    assert "changes noise, rounds, bytes and trust at once" in said
    assert "more if it depends on the load" in said


def test_pages_name_no_file_or_option_that_is_gone() -> None:
    gone = re.compile(
        r"netcdf|xarray|summary\.json|results\.nc|--no-figures|--evaluate|write_all", re.I
    )
    for page in [*PAGES, *sorted((ROOT / "notebooks" / "sources").glob("*.md"))]:
        found = gone.findall(page.read_text())
        assert not found, f"{name_of(page)}: {found}"
