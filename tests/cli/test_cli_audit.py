"""veilsum audit: what it prints, writes and answers with."""

import csv
import json
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from veilsum.cli.app import app
from veilsum.front.words import promises
from veilsum.privacy.laws.shares import GeneralizedDiscreteLaplace
from veilsum.scenario import Scenario

SCENARIO = """
name = "small"
[network]
graph = "florentine-families"
[family]
name = "{family}"
sigma = 1.0
[signals]
draw = {{ mu = 1.0 }}
[privacy]
protect = "{protect}"
epsilon = 1.0
{more}
[algorithm]
name = "{algorithm}"
rounds = 10
"""
PROVED = {"family": "log-normal-1p", "protect": "signal", "algorithm": "learn", "more": ""}
AUDIT = ["audit", "--trials", "20000"]
AS_PUBLISHED = 'delta = 0.01\nsensitivity = "smooth-as-published"'


@pytest.fixture(autouse=True)
def folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def call(folder: Any, *options: Any, **changes: Any) -> Any:
    path = folder / "s.toml"
    path.write_text(SCENARIO.format(**{**PROVED, **changes}))
    return CliRunner().invoke(app, [*AUDIT, str(path), "--out", str(folder / "out"), *options])


def test_a_guarantee_that_stands_is_answered_with_0(tmp_path: Any) -> None:
    done = call(tmp_path)
    assert done.exit_code == 0, done.output
    assert "NOT REFUTED, guarantee proved" in done.output
    assert (tmp_path / "out.html").read_text().count("<svg") == 1
    with (tmp_path / "out.csv").open() as file:
        table = {row["quantity"]: row for row in csv.DictReader(file)}
    assert float(table["exact epsilon"]["value"]) == pytest.approx(1.0)
    assert float(table["epsilon"]["value"]) < float(table["epsilon"]["high"])
    assert {row["status"] for row in table.values()} == {"not refuted"}


def test_a_variant_without_noise_is_named_as_left_out(tmp_path: Any) -> None:
    more = '[[variant]]\nname = "open"\nprivacy = { protect = "nothing" }\n[[variant]]\nname = "hidden"'
    path = tmp_path / "s.toml"
    path.write_text(SCENARIO.format(**PROVED) + more)
    done = CliRunner().invoke(app, [*AUDIT, str(path), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "Not attacked: open: without noise there is no guarantee." in done.stdout
    path.write_text(SCENARIO.format(**PROVED).replace('"signal"\nepsilon = 1.0', '"nothing"'))
    done = CliRunner().invoke(app, [*AUDIT, str(path), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "there is nothing to audit" in done.stdout


def test_units_are_said(tmp_path: Any) -> None:
    path = tmp_path / "s.toml"
    text = SCENARIO.format(**PROVED).replace("sigma = 1.0", 'sigma = 1.0\nunit = "kWh"')
    path.write_text(text.replace("epsilon = 1.0", "epsilon = 1.0\nradius = 1.0"))
    done = CliRunner().invoke(app, [*AUDIT, str(path), "--out", str(tmp_path / "out")])
    assert "1 kWh different" in " ".join(done.stdout.split())


def test_a_guarantee_that_falls_is_answered_with_1(tmp_path: Any) -> None:
    done = call(tmp_path, family="log-normal", more=AS_PUBLISHED)
    assert done.exit_code == 1
    assert "REFUTED" in done.output


@pytest.mark.parametrize(("algorithm", "code"), [("learn-network", 0), ("average", 1)])
def test_under_network_protection_a_neighbour_is_attacked_too(
    algorithm: Any, code: Any, tmp_path: Any
) -> None:
    done = call(tmp_path, "--json", protect="network", algorithm=algorithm)
    assert done.exit_code == code, done.output
    signal, *neighbours = json.loads(done.stdout)["reports"]
    assert not signal["refuted"]
    named = {report["name"].removeprefix("small: "): report for report in neighbours}
    assert list(named) == [
        "neighbour: next message", "neighbour: rounds 2..4", "neighbour: last message",
        "neighbour: all messages", "neighbour: all of two agents",
    ]  # fmt: skip
    assert named["neighbour: next message"]["refuted"] == bool(code)
    assert (named["neighbour: next message"]["delta_lower_bound"] > 0.9) == bool(code)
    assert named["neighbour: rounds 2..4"]["refuted"] == bool(code)
    assert named["neighbour: last message"]["trials"] == 20_000
    # later messages cost more, and the guarantee says so; the refuted one is claimed for all alike
    assert (named["neighbour: all messages"]["epsilon"] > 1) == (code == 0)


@pytest.mark.parametrize(
    ("algorithm", "rounds", "names"),
    [("push-sum", 10, []), ("jacobi", 10, []), ("naive-network", 1, ["neighbour: next message"])],
)
def test_neighbours_are_attacked_where_something_is_claimed_for_them(
    algorithm: Any, rounds: Any, names: Any, tmp_path: Any
) -> None:
    path = tmp_path / "s.toml"
    text = SCENARIO.format(**{**PROVED, "protect": "network", "algorithm": algorithm})
    path.write_text(text.replace("rounds = 10", f"rounds = {rounds}"))
    words = ["audit", str(path), "--trials", "20000", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    found = [report["name"] for report in json.loads(done.stdout)["reports"]]
    assert found == ["small", *(f"small: {name}" for name in names)]


def test_the_smallest_fault_and_the_exact_loss_are_printed(tmp_path: Any) -> None:
    done = call(tmp_path)
    said = " ".join(done.output.split())
    assert "the smallest missing fraction of the noise that the samples would have found" in said
    page = (tmp_path / "out.html").read_text()
    assert "this test would have found it 95 times in 100" in page
    assert "epsilon is 1 exactly" in page
    path = tmp_path / "s.toml"
    words = ["audit", str(path), "--fault", "0.2", "--json"]
    (report,) = json.loads(CliRunner().invoke(app, words).stdout)["reports"]
    assert report["asked_fault"] == 0.2
    assert report["smallest_fault"] < 0.2


def test_strict_refuses_what_is_not_proved(tmp_path: Any) -> None:
    path = tmp_path / "s.toml"
    for algorithm, code in (("learn-network", 0), ("average", 1)):
        path.write_text(SCENARIO.format(**{**PROVED, "protect": "network", "algorithm": algorithm}))
        words = ["run", str(path), "--strict", "--out", str(tmp_path / algorithm)]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == code, done.output
        assert ("erratum 5" in done.output) == bool(code)


MASKED = {
    "family": "normal", "algorithm": "masked-sum",
    "more": 'mode = "masked"\ncolluders = 4\nabsent = 2',
}  # fmt: skip


@pytest.mark.parametrize(("colluders", "code"), [((), 0), (("--colluders", "9"), 4)])
def test_a_masked_sum_stands_against_the_colluders_that_it_covers_and_no_more(
    colluders: Any, code: Any, tmp_path: Any
) -> None:
    """Fifteen families, h = 9: with nine colluders 4 of 9 draws are unknown, beta = 0.44."""
    path = tmp_path / "s.toml"
    path.write_text(SCENARIO.format(**{**PROVED, **MASKED}).replace("rounds = 10", "rounds = 30"))
    words = ["audit", str(path), "--trials", "40000", "--json", *colluders]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == code, done.output
    report, agents = json.loads(done.stdout)["reports"]
    assert report["refuted"] is False
    assert report["verdict"] == ("beyond" if code else "not refuted")
    assert (report["sampler"], agents["sampler"]) == ("floating-point", "exact")
    assert agents["name"] == "small: drawn as by agents"
    assert agents["trials"] >= 1000
    assert (report["lower_bound"] > 1.2) is bool(code)  # by samples alone, confidence 1 - 1e-6
    assert (report["exact"] > 1) is bool(code)


def test_agents_that_would_draw_no_noise_are_found(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        GeneralizedDiscreteLaplace,
        "draw",
        lambda _, count, __=None: np.zeros(count, dtype=np.int64),
    )
    path = tmp_path / "s.toml"
    path.write_text(SCENARIO.format(**{**PROVED, **MASKED}).replace("rounds = 10", "rounds = 30"))
    words = ["audit", str(path), "--trials", "2000"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1, done.output
    said = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert [(row["name"], row["status"]) for row in said["answers"]] == [
        ("small: drawn as by agents", "refuted"), ("small", "not refuted"),
    ]  # fmt: skip
    fast, agents = said["notes"]
    assert "floating-point sampler" in fast
    assert "REFUTED" in agents
    assert "exact sampler" in agents


def test_a_masked_audit_states_what_a_run_states_and_takes_no_rounds(tmp_path: Any) -> None:
    path = tmp_path / "s.toml"
    text = SCENARIO.format(**{**PROVED, **MASKED}).replace("rounds = 10", "rounds = 30")
    path.write_text(text.replace("absent = 2", "absent = 2\nattempts = 2"))
    words = ["audit", str(path), "--trials", "1000"]
    done = CliRunner().invoke(app, [*words, "--colluders", "9"])
    assert done.exit_code == 4, done.output
    said = " ".join(done.stdout.split())
    (job,) = Scenario.load(path).jobs()
    assert promises({"small": job.problem.guarantee}) == [
        sentence for sentence in json.loads(
            CliRunner().invoke(app, [*words, "--json"]).stdout
        )["promises"] if sentence.startswith("Proved")
    ]  # fmt: skip
    assert (
        "one session is attacked, epsilon = 0.5; the guarantee is for the 2 that a query may"
        in said
    )
    assert "9 colluders are beyond the 4 covered" in said
    assert "REFUTED" not in said
    wrong = CliRunner().invoke(app, [*words, "--rounds", "5"])
    assert wrong.exit_code == 1
    assert "--rounds 5: a sum over a roster is attacked query by query" in wrong.stderr


def test_colluders_are_for_sums_over_a_roster(tmp_path: Any) -> None:
    done = call(tmp_path, "--colluders", "2")
    assert done.exit_code != 0
    assert "nothing of small is a sum over a roster" in done.output
