"""Files: NAME.html and NAME.csv, replaced in one step; what is not ours stays, secrets are the owner's."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.front.studies import DRAWN, MEASURED, READINGS, call, study
from veilsum.errors import CommandError
from veilsum.front import files
from veilsum.front.of_runs import of_runs
from veilsum.scenario import Scenario, run

FILES = ["small.csv", "small.html"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_run_leaves_a_page_and_a_table_and_replaces_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    file = study(tmp_path)
    first = call("run", file)
    assert first.exit_code == 0, first.output
    assert names(Path()) == FILES
    before = Path("small.csv").read_text()
    assert call("run", file, "--seed", "4").exit_code == 0
    assert names(Path()) == FILES
    assert Path("small.csv").read_text() != before
    assert "Page small.html" in first.stdout


def test_python_writes_what_the_command_writes(tmp_path: Path) -> None:
    file = study(tmp_path)
    assert call("run", file, "--out", tmp_path / "command").exit_code == 0
    run(file, out=tmp_path / "python")
    for kind in (".csv", ".html"):
        one, two = (tmp_path / f"{name}{kind}" for name in ("command", "python"))
        assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    ("stem", "page"),
    [("a", "a.html"), ("a.html", "a.html"), ("a.csv", "a.html"), ("v1.2", "v1.2.html"),
     ("deep/er/a", "deep/er/a.html"), ("folder", "folder/small.html")],
)  # fmt: skip
def test_a_stem_is_a_path_without_an_ending_or_a_folder(
    tmp_path: Path, stem: str, page: str
) -> None:
    (tmp_path / "folder").mkdir()
    written = run(Scenario.parse(DRAWN)).save(tmp_path / stem)
    assert written == [tmp_path / page, (tmp_path / page).with_suffix(".csv")]


@pytest.mark.parametrize("kind", ["csv", "html"])
def test_a_file_that_is_not_ours_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The readings of a study may have its name."""
    monkeypatch.setattr("veilsum.scenario.execute.execute", lambda *_, **__: pytest.fail("it ran"))
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / f"small.{kind}"
    mine.write_text("agent,value\n0,1.5\n")
    os.utime(mine, (1, 1))
    done = call("run", study(tmp_path))
    assert done.exit_code == 2
    assert f"small.{kind} is there already and is no {kind} file of veilsum" in done.stderr
    assert "--out" in done.stderr
    assert mine.read_text() == "agent,value\n0,1.5\n"
    assert mine.stat().st_mtime == 1
    assert names(tmp_path) == sorted(["readings.csv", "s.toml", f"small.{kind}"])


def test_readings_of_the_study_s_name_are_never_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured signals in meters.csv, and a study called meters."""
    monkeypatch.chdir(tmp_path)
    file = study(tmp_path, MEASURED.replace("readings.csv", "meters.csv"))
    (tmp_path / "readings.csv").rename("meters.csv")
    before = Path("meters.csv").read_bytes()
    done = call("run", file)
    assert done.exit_code == 2
    assert Path("meters.csv").read_bytes() == before
    assert not any(str(value) in done.output for value in READINGS)
    assert call("run", file, "-o", "answers").exit_code == 0
    assert Path("meters.csv").read_bytes() == before


def test_a_folder_of_that_name_and_a_file_that_mentions_us_are_no_files_of_ours(
    tmp_path: Path,
) -> None:
    answers = run(Scenario.parse(DRAWN))
    (tmp_path / "a.html").mkdir()
    with pytest.raises(CommandError, match="is a folder"):
        answers.save(tmp_path / "a")
    mark = files.MARKS[".csv"]
    (tmp_path / "b.csv").write_text(f"# not written by veilsum, which begins with\n{mark}\n")
    with pytest.raises(CommandError, match="so it is not replaced"):
        answers.save(tmp_path / "b")


def test_a_write_that_fails_leaves_the_old_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = run(Scenario.parse(DRAWN))
    answers.save(tmp_path / "a")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def fails(_: Any) -> str:
        return "page of veilsum, \ud800 which no file can hold"

    monkeypatch.setattr(files, "document", fails)
    with pytest.raises(UnicodeEncodeError):
        answers.save(tmp_path / "a")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_secret_files_are_the_owner_s_from_the_first_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where an earlier file of that name could be read by all, and whatever the umask."""
    opened: list[int] = []
    usual = os.fdopen

    def noted(descriptor: int, *words: Any, **more: Any) -> Any:
        opened.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return usual(descriptor, *words, **more)

    secret = [tmp_path / "out.secret.html", tmp_path / "out.secret.csv"]
    for path in secret:
        path.write_text("")
        path.chmod(0o666)
    old = os.umask(0)
    try:
        monkeypatch.setattr(os, "fdopen", noted)
        answers = run(study(tmp_path, MEASURED), truth=True)
        assert answers.save(tmp_path / "out") == secret
        open_ones = of_runs(answers.results).save(tmp_path / "out")
    finally:
        os.umask(old)
    assert [mode(path) for path in secret] == [0o600, 0o600]
    assert opened == [0o600, 0o600, 0o666, 0o666], "weakened: open files are readable by all"
    assert [mode(path) for path in open_ones] == [0o666, 0o666]


def test_truth_is_in_files_of_its_own_and_stale_ones_are_named(tmp_path: Path) -> None:
    file, out = study(tmp_path, MEASURED), tmp_path / "out"
    done = call("run", file, "--out", out, "--truth")
    assert done.exit_code == 0, done.output
    assert done.stdout.count("SECRET, as secret as the signals") == 1
    assert {"out.secret.csv", "out.secret.html"} <= set(names(tmp_path))
    assert "error" not in (tmp_path / "out.csv").read_text()
    assert ",error," in (tmp_path / "out.secret.csv").read_text()
    assert "earlier" not in done.stderr
    again = call("run", file, "--out", out)
    for kind in ("csv", "html"):
        assert f"note: {out}.secret.{kind} is of an earlier run, and secret" in again.stderr
    as_json = call("run", file, "--out", out, "--truth", "--json")
    assert "disagreement" not in as_json.stdout
    drawn = call("run", study(tmp_path, DRAWN, "d.toml"), "--out", tmp_path / "d", "--truth")
    assert drawn.exit_code == 0, drawn.output
    assert not (tmp_path / "d.secret.csv").exists(), "drawn signals have no secret"


def test_a_secret_file_is_not_written_over_somebody_else_s(tmp_path: Path) -> None:
    (tmp_path / "out.secret.csv").write_text("mine")
    done = call("run", study(tmp_path, MEASURED), "--out", tmp_path / "out", "--truth")
    assert done.exit_code == 2
    assert (tmp_path / "out.secret.csv").read_text() == "mine"
    assert not (tmp_path / "out.html").exists(), "refused before anything ran"


def test_a_figure_for_a_paper(tmp_path: Path) -> None:
    for kind, start in (("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")):
        figure = tmp_path / f"fig.{kind}"
        done = call("run", study(tmp_path), "--out", tmp_path / "o", "--plot", figure)
        assert done.exit_code == 0, done.output
        assert figure.read_bytes().startswith(start)
        assert str(figure) in done.stdout.replace("\n  ", "")
    wrong = call("run", study(tmp_path), "--out", tmp_path / "o", "--plot", tmp_path / "fig.doc")
    assert wrong.exit_code == 2, wrong.output
    assert "Traceback" not in wrong.output
    assert "pdf" in wrong.stderr
    readings = (tmp_path / "readings.csv").read_bytes()
    wrong = call(
        "run", study(tmp_path), "--out", tmp_path / "o", "--plot", tmp_path / "readings.csv"
    )
    assert wrong.exit_code == 2
    assert (tmp_path / "readings.csv").read_bytes() == readings
