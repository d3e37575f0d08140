"""A fleet as people run it: cron and systemd as the templates say, metrics for Prometheus, and the page."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.front.terminals import WIDTHS, on_terminal
from tests.live.conftest import OpenPage, browser, complaints, open_page, screenshot
from veilsum.fleet.post import Kind
from veilsum.fleet.question import FleetQuestion, Worded
from veilsum.fleet.site import Site

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["browser", "complaints", "open_page", "screenshot"]  # fixtures

DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "fleet"
CONFINED = Path(__file__).with_name("confined.py")
PROGRAM, PLACE = "/opt/veilsum/bin/veilsum", "/var/lib/veilsum"
VEILSUM = [sys.executable, "-m", "veilsum.cli"]
EXPOSURE = 1.2  # of 10
SITES = ("chur", "sion", "bern")

pytestmark = pytest.mark.integration
systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")


def call(folder: Path, *words: str, code: int = 0) -> str:
    """A command in a site's folder."""
    done = subprocess.run(
        [*VEILSUM, *words], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Three sites on a folder, as their people make them; a question has been asked."""
    board = tmp_path / "board"
    for name in (*SITES, "desk"):
        (tmp_path / name).mkdir()
    call(tmp_path / "desk", "fleet", "init", str(board), "--name", "north", "--mounted")
    for k, name in enumerate(SITES):
        rows = "".join(f"{10 + k},{j}\n" for j in range(400))
        (tmp_path / name / "rows.csv").write_text("kwh,day\n" + rows)
        call(
            tmp_path / name, "fleet", "join", str(board), "--name", name, "--data", "rows.csv",
            "--epsilon", "10", "--approve", "mean", "--columns", "kwh", "--max-epsilon", "5",
        )  # fmt: skip
    call(tmp_path / "desk", "fleet", "admit", *SITES, "--yes")
    ask(tmp_path / "desk")
    return tmp_path


def ask(desk: Path) -> None:
    asked = Worded("mean", ("kwh",), {"--between": [["0", "40"]]})
    question = FleetQuestion(asks=(asked,), epsilon=1.0, protocol="pool")
    with Site(desk) as site:
        seat = site.seat()
        seat.read()
        seat.publish(Kind.QUESTION, question.digest, question.canonical(), int(time.time()))
        seat.write(int(time.time()))


def status(folder: Path) -> Any:
    return json.loads(call(folder, "fleet", "status", "--json"))


# ---- cron


def cron_line(folder: Path) -> tuple[str, str]:
    """Schedule and command of the template, for this site and this Python."""
    (line,) = [one for one in (DEPLOY / "veilsum.cron").read_text().splitlines() if PROGRAM in one]
    found = re.fullmatch(r"((?:\S+ ){5})(\S+) (.+)", line)
    assert found is not None
    assert found[2] == "veilsum"  # the user
    return found[1].strip(), found[3].replace(PROGRAM, " ".join(VEILSUM)).replace(
        PLACE, str(folder)
    )


def by_cron(folder: Path) -> subprocess.CompletedProcess[str]:
    """As cron does: /bin/sh, an environment of four names, its own folder."""
    _, command = cron_line(folder)
    given = {"SHELL": "/bin/sh", "PATH": "/usr/bin:/bin", "LOGNAME": "veilsum", "HOME": "/"}
    return subprocess.run(
        ["/bin/sh", "-c", command], cwd="/", env=given, capture_output=True, text=True, timeout=120
    )


def test_cron_runs_the_sites_and_mails_what_is_new_alone(fleet: Path) -> None:
    assert cron_line(fleet)[0] == "*/5 * * * *"
    said = [by_cron(fleet / name) for name in SITES]
    assert [one.returncode for one in said] == [0, 0, 0]
    assert all("released mean of kwh" in one.stdout for one in said)
    again = [by_cron(fleet / name) for name in SITES]
    assert [(one.returncode, one.stdout, one.stderr) for one in again] == [(0, "", "")] * 3
    (question,) = status(fleet / "desk")["questions"]
    assert question["covers"] == "3 of 3 sites"
    (number,) = question["found"][0]["values"]
    assert abs(number - 11) < 1  # noise of 3 draws of Laplace(40) over 1,200 records: P < e^-27


def test_cron_says_nothing_while_another_step_runs(fleet: Path) -> None:
    with Site(fleet / "chur"):
        busy = by_cron(fleet / "chur")
    assert (busy.returncode, busy.stdout, busy.stderr) == (75, "", "")


def test_cron_says_what_a_person_should_know_once(fleet: Path) -> None:
    with Site(fleet / "chur") as site, site.file.transaction():
        site.file.set("stopped", b"a copy of it goes on")
    found = by_cron(fleet / "chur")
    assert found.returncode == 3
    assert "stopped for good" in found.stdout


# ---- systemd


def analyze(folder: Path, name: str, text: str, *words: str) -> tuple[int, str]:
    """What systemd-analyze says of a unit whose program exists."""
    for other in DEPLOY.glob("veilsum-step.*"):
        (folder / other.name).write_text(other.read_text().replace(PROGRAM, sys.executable))
    (folder / name).write_text(text.replace(PROGRAM, sys.executable))
    done = subprocess.run(
        ["systemd-analyze", *words, "--no-pager", str(folder / name)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def unit(suffix: str = "service") -> str:
    return (DEPLOY / f"veilsum-step.{suffix}").read_text()


@systemd
@pytest.mark.parametrize("suffix", ["service", "timer"])
def test_systemd_finds_nothing_wrong(tmp_path: Path, suffix: str) -> None:
    assert analyze(tmp_path, f"veilsum-step.{suffix}", unit(suffix), "verify") == (0, "")


@systemd
@pytest.mark.parametrize(
    ("suffix", "right", "mistaken"),
    [("service", "Type=oneshot", "Type=oneshots"), ("service", "ProtectHome=", "ProtectHomes="),
     ("timer", "OnCalendar=*:0/5", "OnCalendar=now and then")],
)  # fmt: skip
def test_it_would_find_a_mistake(tmp_path: Path, suffix: str, right: str, mistaken: str) -> None:
    assert right in unit(suffix)
    text = unit(suffix).replace(right, mistaken)
    assert analyze(tmp_path, f"veilsum-step.{suffix}", text, "verify") != (0, "")


@systemd
def test_the_unit_is_hardly_exposed(tmp_path: Path) -> None:
    words = ("security", "--offline=true", f"--threshold={EXPOSURE * 10:.0f}")
    code, said = analyze(tmp_path, "veilsum-step.service", unit(), *words)
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
    assert found, said
    assert (code, float(found[1]) <= EXPOSURE) == (0, True), said
    weakened = unit().replace("NoNewPrivileges=yes\n", "").replace("PrivateUsers=yes\n", "")
    assert analyze(tmp_path, "veilsum-step.service", weakened, *words)[0] != 0


@systemd
def test_a_step_runs_under_the_rules_of_the_unit(fleet: Path) -> None:
    """ExecStart and ExecStartPost of the template, with its filter of system calls and its environment."""
    written = re.findall(r"^(Exec\w+)=-?(.+)$", unit(), re.M)
    assert [name for name, _ in written] == ["ExecStart", "ExecStartPost"]
    for name in SITES:
        for _, command in written:
            words = command.replace(PLACE, str(fleet / name)).split()[1:]
            done = subprocess.run(
                [sys.executable, str(CONFINED), str(DEPLOY / "veilsum-step.service"), *VEILSUM, *words],
                cwd=fleet / name, env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True, text=True, timeout=120,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
    assert status(fleet / "desk")["questions"][0]["covers"] == "3 of 3 sites"
    text = (fleet / "bern" / "veilsum.prom").read_text()
    assert 'veilsum_fleet_epoch{fleet="north"} 2' in text


# ---- Prometheus


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool")
def test_promtool_takes_the_metrics(fleet: Path) -> None:
    for name in SITES:
        call(fleet / name, "fleet", "step")
    file = fleet / "veilsum.prom"
    assert call(fleet / "chur", "fleet", "status", "--metrics", str(file)) == ""
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=file.read_text(), capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ---- screen, check and page


def test_status_waits_for_a_step_and_disturbs_none(fleet: Path) -> None:
    with Site(fleet / "chur"):
        waiting = subprocess.Popen(
            [*VEILSUM, "fleet", "status", "--json"], cwd=fleet / "chur",
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        time.sleep(2.5)  # it has begun by now, and waits
        assert waiting.poll() is None
    out, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == 0
    assert json.loads(out)["member"] == "chur"
    assert sorted(path.name for path in (fleet / "chur").iterdir()) == [
        "rows.csv", "site.db", "site.toml"
    ]  # fmt: skip


def test_the_screen_on_real_terminals(fleet: Path) -> None:
    """Nothing is cut and nothing is wider; Ctrl-C ends a page with one line."""
    call(fleet / "chur", "fleet", "step")
    for columns in WIDTHS:
        for words in (("fleet", "status", "--read"), ("fleet", "check")):
            shown = on_terminal(*words, columns=columns, folder=fleet / "chur")
            assert (shown.code, shown.errors) == (0, "")
            long = [line for line in shown.lines if len(line) > columns]
            assert all(len(line.split()) <= 2 for line in long), long  # an address
    shown = on_terminal(
        "fleet", "status", "--page", "127.0.0.1:0", folder=fleet / "chur", interrupt="until Ctrl-C"
    )
    assert (shown.code, shown.text.strip()) == (0, "^C")
    assert shown.ended < 5


def test_a_page_for_others_is_refused(fleet: Path) -> None:
    done = subprocess.run(
        [*VEILSUM, "fleet", "status", "--page", "0.0.0.0:8090"], cwd=fleet / "chur",
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode != 0
    assert "ssh -L 8090:127.0.0.1:8090" in done.stderr


def test_check_says_ok_and_then_what_is_wrong(fleet: Path) -> None:
    call(fleet / "chur", "fleet", "step")
    assert "all is well" in call(fleet / "chur", "fleet", "check")
    (fleet / "chur" / "site.db").chmod(0o640)
    said = call(fleet / "chur", "fleet", "check", code=1)
    assert "others may read it (640)" in said
    assert "chmod 600" in said


@contextmanager
def page_of(folder: Path) -> Iterator[str]:
    """`veilsum fleet status --page`, and its address; it ends with Ctrl-C."""
    process = subprocess.Popen(
        [*VEILSUM, "fleet", "status", "--page", "127.0.0.1:0"], cwd=folder,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + process.stderr.read()
        yield found[0]
    finally:
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
    assert (process.returncode, said) == (0, "")


def test_the_page_of_a_real_fleet(
    fleet: Path, open_page: OpenPage, screenshot: Callable[[Page, str], bytes]
) -> None:
    """The page is open while sites step from elsewhere: it sees them come in."""
    from playwright.sync_api import expect

    with page_of(fleet / "desk") as url:
        page = open_page(url)
        expect(page.get_by_role("heading", level=1)).to_have_text("north")
        expect(page.locator("#answer")).to_have_text("waiting")
        expect(page.locator("#attention")).to_contain_text("never heard here: chur, sion, bern")
        call(fleet / "chur", "fleet", "step")
        call(fleet / "sion", "fleet", "step")
        expect(page.locator("#covers")).to_have_text("2 of 3", timeout=30_000)
        call(fleet / "bern", "fleet", "step")
        expect(page.locator("#covers")).to_have_text("3 of 3", timeout=30_000)
        expect(page.locator("#map [data-state=in]")).to_have_count(3)
        assert page.locator("#closing polyline").count() == 1
        assert screenshot(page, "real")
        page.close()
