"""graph, families, algorithms, the sweep's grid, and the program as users start it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from veilsum import __version__, algorithms, families
from veilsum.cli.app import app
from veilsum.cli.sweep import parse


def call(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def program(*words: str) -> Any:
    command = [sys.executable, "-m", "veilsum.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_program_itself(tmp_path: Any) -> None:
    assert program("--version").stdout == f"veilsum {__version__}\n"
    began = time.monotonic()
    helped = program("--help")
    assert helped.returncode == 0
    assert time.monotonic() - began < 5  # under a second on an idle machine
    for verb in (
        "run",
        "sweep",
        "plan",
        "audit",
        "reproduce",
        "graph",
        "families",
        "algorithms",
        "init",
    ):
        assert f" {verb} " in helped.stdout
    file = tmp_path / "s.toml"
    assert program("init", str(file)).returncode == 0
    out = tmp_path / "out"
    done = program("run", str(file), "--json", "--replicas=1", f"--out={out}")
    assert (done.returncode, done.stderr) == (0, "")
    answers = json.loads(done.stdout)["answers"]
    assert {answer["name"] for answer in answers} == {"jacobi", "average", "no-privacy"}
    file.write_text("name = ")
    wrong = program("run", str(file))
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "line 1" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_help_imports_nothing_heavy() -> None:
    heavy = "{'pydantic', 'pandas', 'matplotlib', 'numba', 'networkx', 'scipy', 'numpy'}"
    code = f"import sys, veilsum.cli.app; print({heavy} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "set()\n"


def verbs() -> Iterator[tuple[str, Any]]:
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        for verb, one in getattr(command, "commands", {"": command}).items():
            yield f"{name} {verb}".strip(), one


def joined(text: str) -> str:
    """Without spaces and line breaks: long words are broken at hyphens."""
    return "".join(text.split())


def helped(width: int, *words: str) -> str:
    done = CliRunner().invoke(app, [*words, "--help"], terminal_width=width)
    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) <= width
    return done.stdout


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize(("verb", "command"), list(verbs()), ids=lambda v: str(v))
def test_help_of_every_verb_shows_all_its_text(verb: str, command: Any, width: int) -> None:
    """Markup in a help text, such as [all], would vanish when it is rendered."""
    shown = joined(helped(width, *verb.split()))
    assert command.help
    assert joined(command.help) in shown
    for parameter in (p for p in command.params if not getattr(p, "hidden", False)):
        assert joined(getattr(parameter, "help", None) or "") in shown, parameter.name
        if isinstance(default := getattr(parameter, "show_default", None), str):
            assert joined(f"[default: ({default})") in shown, parameter.name
        if parameter.param_type_name == "argument":
            assert joined(parameter.metavar or parameter.name.upper()) in shown


@pytest.mark.parametrize("width", [60, 80])
def test_help_of_a_group_names_its_verbs_with_whole_sentences(width: int) -> None:
    groups: dict[str, Any] = {"": typer.main.get_command(app)}
    groups |= {name: c for name, c in groups[""].commands.items() if hasattr(c, "commands")}
    assert len(groups) > 3
    for name, group in groups.items():
        shown = joined(helped(width, *name.split()))
        for verb, command in group.commands.items():
            assert joined(verb + command.help.split("\n\n")[0]) in shown


def test_help_shows_words_in_brackets() -> None:
    assert "whole_value under [report]" in " ".join(helped(80, "report").split())
    assert "the changed [budget] of an agent's file" in " ".join(helped(80, "ledger").split())


def test_help_names_the_defaults_that_depend_on_the_scenario() -> None:
    for verb, default in (
        ("run", "NAME"), ("plan", "the scenario's"), ("plan", "the first"), ("up", "all"),
        ("up", "NAME-agents"), ("reproduce", "all"), ("ledger verify", "PATH.key, if it exists"),
    ):  # fmt: skip
        assert joined(f"[default: ({default})") in joined(helped(80, *verb.split()))


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("words", [["families"], ["algorithms"], ["graph", "ring:20"]])
def test_lists_cut_nothing_and_keep_to_the_width(
    words: list[str], width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("veilsum.front.terminal.width", lambda: width)
    done = call(*words)
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= width
    shown = joined(done.stdout)
    for text in texts(json.loads(call(*words, "--json").stdout)):
        assert joined(text) in shown, text


def texts(found: Any) -> Iterator[str]:
    """The texts of a JSON object; kinds of weights are shown by a shorter name."""
    for key, value in found.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                yield from texts(one)
            elif isinstance(one, str):
                yield one.removesuffix("-stochastic") if key == "kinds" else one


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        ("0.125:4:6", [0.125, 0.25, 0.5, 1.0, 2.0, 4.0]),
        ("4:0.25:3", [4.0, 1.0, 0.25]),
        ("0.5,1,2", [0.5, 1.0, 2.0]),
        ("1", [1.0]),
        ("0.1:10:2", [0.1, 10.0]),
    ],
)
def test_epsilons_are_a_grid_or_a_list(spec: Any, values: Any) -> None:
    assert parse(spec) == values


@pytest.mark.parametrize(
    "spec",
    ["", "a", "1,", "0", "-1", "1:2", "1:2:1", "1:2:x", "1:2:3:4", "1,1", "inf", "nan", "1:1:3"],
)  # fmt: skip
def test_wrong_epsilons_are_wrong_usage(spec: Any) -> None:
    with pytest.raises(typer.BadParameter):
        parse(spec)
    assert call("sweep", "any.toml", f"--epsilon={spec}").exit_code == 2


@pytest.mark.parametrize(
    "words", [["nope"], ["run"], ["run", "x", "--seed", "-1"], ["run", "--no"]]
)
def test_wrong_usage_has_code_two(words: Any) -> None:
    assert call(*words).exit_code == 2


def test_graph_describes_the_grid() -> None:
    said = json.loads(call("graph", "us-power-grid", "--json").stdout)
    assert (said["agents"], said["links"], said["connected"]) == (4941, 6594, True)
    assert said["degrees"] == {"least": 1, "mean": pytest.approx(2.669, abs=1e-3), "most": 19}
    best = {row["scheme"]: row for row in said["weights"]}["metropolis"]
    assert 0.9998 < best["beta_star"] < 0.9999
    assert best["spectral_gap"] == pytest.approx(1 - best["beta_star"])
    assert best["beta_star"] ** best["rounds"] <= 1e-3 < best["beta_star"] ** (best["rounds"] - 1)
    assert "fastest" not in {row["scheme"] for row in said["weights"]}
    assert any("jacobi" in warning for warning in said["warnings"])


def test_graph_says_which_weights_do_not_work_and_what_does() -> None:
    done = call("graph", "ring:20")
    assert done.exit_code == 0
    assert "metropolis: weights are periodic" in done.stdout
    assert "try lazy-metropolis" in " ".join(done.stdout.split())
    assert "warning: The graph is regular and bipartite" in done.stdout
    assert "fastest" in done.stdout


def test_graph_takes_one_scheme() -> None:
    said = json.loads(call("graph", "ring:9", "--weights", "max-degree", "--json").stdout)
    assert [row["scheme"] for row in said["weights"]] == ["max-degree"]
    assert call("graph", "ring:9", "--weights", "maxdegree").exit_code == 2


def test_graph_reads_files_directed_or_not(tmp_path: Any) -> None:
    file = tmp_path / "g.csv"
    file.write_text("source,target\n0,1\n1,2\n2,0\n0,2\n")
    done = call("graph", str(file), "--directed")
    assert done.exit_code == 0, done.output
    assert "column-stochastic" in done.stdout
    assert "push-sum" in done.stdout
    said = json.loads(call("graph", str(file), "--json").stdout)
    assert (said["directed"], said["links"]) == (False, 3)


def test_graph_of_several_parts_is_a_warning_with_the_reasons(tmp_path: Any) -> None:
    file = tmp_path / "g.csv"
    file.write_text("0,1\n2,3\n")
    done = call("graph", str(file))
    assert done.exit_code == 0, done.output
    assert "warning: The graph has 2 components" in done.stdout


def test_graph_exit_codes(tmp_path: Any) -> None:
    assert call("graph", "rong:3").exit_code == 2
    assert call("graph", str(tmp_path / "none.csv")).exit_code == 2
    (tmp_path / "bad.csv").write_text("0,0\n")
    failed = call("graph", str(tmp_path / "bad.csv"))
    assert failed.exit_code == 1
    assert failed.stderr.startswith("error: ")


def test_families_and_algorithms_are_all_listed() -> None:
    listed_families = json.loads(call("families", "--json").stdout)["families"]
    assert [row["name"] for row in listed_families] == list(families.names())
    listed = json.loads(call("algorithms", "--json").stdout)["algorithms"]
    assert [row["name"] for row in listed] == algorithms.names()
    assert {row["name"] for row in listed if row["diverges"]} >= {"learn-dynamic-as-published"}
    for verb, names in (("families", families.names()), ("algorithms", algorithms.names())):
        text = call(verb).stdout
        assert all(name in text for name in names)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("ring:5.0", "found 5.0; write 5"),
        ("ring:1e400", "found inf"),
        ("random-regular:4,2.0", "found 2.0; write 2"),
        ("hypercube:100", "at most 24; found 100"),
    ],
)
def test_graph_names_with_wrong_numbers_are_wrong_usage(name: Any, part: Any) -> None:
    done = program("graph", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert part in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


def test_graph_leaves_out_the_fastest_weights_where_they_take_long() -> None:
    said = json.loads(call("graph", "random-geometric:60,0.3,1", "--json").stdout)
    assert "fastest" not in {row["scheme"] for row in said["weights"]}


@pytest.mark.parametrize("verb", ["run", "sweep"])
@pytest.mark.parametrize(
    ("option", "value"),
    [("--replicas", "0"), ("--replicas", "-3"), ("--replicas", "1.5"), ("--seed", "-1")],
)
def test_replicas_and_seeds_out_of_range_are_wrong_usage(
    verb: Any, option: Any, value: Any
) -> None:
    done = call(verb, "any.toml", option, value)
    assert done.exit_code == 2
    assert f"Invalid value for '{option}'" in done.output


def test_without_a_verb_the_program_says_which_there_are() -> None:
    done = program()
    assert done.returncode == 2
    assert "Usage: " in done.stdout + done.stderr
    assert "watch" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
