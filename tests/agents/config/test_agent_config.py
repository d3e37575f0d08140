"""agent.toml: errors name the line and the nearest key; `veilsum agent --check` checks readings."""

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.agents.config.setups import write_setup
from veilsum.agents.config import Setup
from veilsum.agents.config_tables import ReadingsTable
from veilsum.cli.app import app
from veilsum.errors import AgentError, LedgerError, ScenarioError
from veilsum.scenario import Scenario

DURATIONS = 'a duration such as "90s", "10m", "1h", "1d" or "2w", or seconds'
PERIODS = (
    'day, week, month or a time such as "90s", "10m", "1h", "1d" or "2w", or a number of seconds, '
    "from a second to a hundred years"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_setup(tmp_path, keys=True)


def edited(folder: Path, old: str, new: str) -> Path:
    path = folder / "agent.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


def line_of(path: Path, start: str) -> int:
    lines = path.read_text().splitlines()
    return next(k for k, line in enumerate(lines, 1) if line.startswith(start))


def problem(path: Path) -> str:
    with pytest.raises(AgentError) as raised:
        Setup.load(path)
    return str(raised.value)


def check(folder: Path) -> Any:
    return CliRunner().invoke(app, ["agent", str(folder / "agent.toml"), "--check"])


def test_a_file_is_accepted(folder: Path) -> None:
    assert Setup.load(folder / "agent.toml").config.name == "north"


def test_a_misspelt_key_is_named_with_its_line_and_the_nearest_key(folder: Path) -> None:
    path = edited(folder, "column = ", "colunm = ")
    assert problem(path) == (
        f"{path}, line {line_of(path, 'colunm')}: readings.colunm: there is no such key; allowed: "
        f'{", ".join(ReadingsTable.model_fields)}; did you mean "column"?'
    )


def test_a_misspelt_table_is_named_before_the_one_that_is_missing(folder: Path) -> None:
    path = edited(folder, "[budget]", "[bugdet]")
    first, second = problem(path).splitlines()
    assert f"line {line_of(path, '[bugdet]')}: bugdet: there is no such key" in first
    assert 'did you mean "budget"?' in first
    assert second.endswith("budget: missing; add a section [budget]")


@pytest.mark.parametrize(
    ("table", "line", "key", "expected"),
    [
        ("budget", 'epsilon = "1.0"', "budget.epsilon", "a number"),
        ("budget", "epsilon = true", "budget.epsilon", "a number"),
        ("budget", "epsilon = 0", "budget.epsilon", "a number above 0"),
        ("budget", 'epsilon = 1\nwindow = "7"', "budget.window", "a whole number"),
        ("budget", "epsilon = 1\nwindow = 7.5", "budget.window", "a whole number"),
        ("budget", 'epsilon = 1\nunit = "streem"', "budget.unit",
         'stream, window, event; did you mean "stream"?'),
        ("budget", "epsilon = inf", "budget.epsilon", "a finite number"),
        ("budget", 'epsilon = 1\nunit = "window"', "budget.unit",
         'unit = "window" with window, a number of readings, such as window = 7'),
        ("budget", "epsilon = 1\nwindow = 5", "budget.window",
         'window with unit = "window" only; leave out one of the two'),
        ("budget", 'epsilon = 1\nunit = "event"\nwindow = 5', "budget.window",
         'window with unit = "window" only; leave out one of the two'),
        ("budget", 'epsilon = 1\nper = "hour"', "budget.per", PERIODS),
        ("budget", "epsilon = 1\nper = 1e-9", "budget.per", PERIODS),
        ("budget", "epsilon = 1\nper = 1e300", "budget.per", PERIODS),
        ("budget", 'epsilon = 1\nper = "day"\nzone = "Mars"', "budget.zone",
         'a time zone of this system, such as "UTC" or "Europe/Madrid"'),
        ("budget", 'epsilon = 1\nper = "day"\nzone = "Asia/Tokyo"', "budget.zone",
         'zone with refill = "fixed" and per = "day", "week" or "month" only; leave it out'),
        ("budget", 'epsilon = 1\nrefill = "fixed"', "budget.refill",
         'refill with per only, such as per = "day"'),
        ("rounds", 'deadline = "5"', "rounds.deadline", DURATIONS),
        ("rounds", "linger = 0", "rounds.linger", "a number above 0"),
        ("readings", 'http = "x"\ncolumn = "a"\nkey = "b"\ninterval = "s3"', "readings.interval",
         DURATIONS),
        ("ledger", r'path = "a\u0000b"', "ledger.path", "text without the NUL character"),
        ("readings", r'csv = "a\u0000b"', "readings.csv", "text without the NUL character"),
        ("readings", r'command = ["a\u0000b"]', "readings.command",
         "text without the NUL character"),
        ("peers", r'east = "a\u0000b"', "peers", "text without the NUL character"),
        ("ledger", 'path = "x"\nconfirmations = "2"', "ledger.confirmations",
         "a whole number or \"all\""),
        ("readings", 'csv = "x"\nfollow = "yes"', "readings.follow", "true or false"),
        ("readings", 'csv = "x"\ncolumn = 3', "readings.column",
         'text in quotes or a list of texts, such as ["a", "b"]'),
        ("readings", 'command = "meter"', "readings.command",
         'a list of texts, such as ["a", "b"]'),
        ("keys", "folder = 5", "keys.folder", "text in quotes"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_its_line_and_not_shown(
    folder: Path, table: str, line: str, key: str, expected: str
) -> None:
    path = folder / "agent.toml"
    text = re.sub(rf"^\[{table}\]\n(?:[^\[\n].*\n?)*", "", path.read_text(), flags=re.M)
    path.write_text(f"{text}\n[{table}]\n{line}\n")
    last = f"[{table}]" if key == table else line.splitlines()[-1]
    assert problem(path) == f"{path}, line {line_of(path, last)}: {key}: allowed: {expected}"


def test_what_is_missing_is_named_with_its_section(folder: Path) -> None:
    path = edited(folder, 'path = "north.ledger"\n', "")
    line = line_of(path, "[ledger]")
    assert problem(path) == f"{path}, line {line}: ledger.path: missing; add path = ... to [ledger]"
    edited(folder, 'name = "north"\n', "")
    assert "name: missing; add name = ... before the first section" in problem(path)


def test_a_secret_of_the_file_is_in_no_message(folder: Path) -> None:
    path = edited(folder, 'column = "load"', 'column = { password = "s3cret" }\nfollow = "s3cret"')
    assert "s3cret" not in problem(path)
    assert len(problem(path).splitlines()) == 2


def test_both_files_have_one_style_of_error(folder: Path) -> None:
    """The same mistake in both files is described in the same words, the value aside."""
    path = edited(folder, "epsilon = 1.0", "epsilon = 0")
    scenario = folder / "scenario.toml"
    scenario.write_text(scenario.read_text().replace("rounds = 60", "rounds = 0"))
    with pytest.raises(ScenarioError) as raised:
        Scenario.load(scenario)
    assert str(raised.value).endswith(
        ": algorithm.rounds: found 0; allowed: a number of at least 1"
    )
    assert problem(path).endswith(": budget.epsilon: allowed: a number above 0")


def test_a_list_in_place_of_which_there_is_a_text_is_one_of_texts(folder: Path) -> None:
    path = edited(folder, 'listen = ["tls/127.0.0.1:0"]', 'listen = "x"')
    expected = f'{path}, line 3: listen: allowed: a list of texts, such as ["a", "b"]'
    assert problem(path) == expected


def test_a_path_that_cannot_be_is_an_error_of_the_file(folder: Path) -> None:
    path = edited(folder, '"scenario.toml"', r'"scenario\u0000.toml"')
    assert problem(path) == f"{path}, line 2: scenario: allowed: text without the NUL character"
    with pytest.raises(ScenarioError, match="its path has a NUL character; check the path"):
        Scenario.load(folder / "a\0b.toml")
    edited(folder, r"scenario\u0000.toml", "~no-such-user/scenario.toml")
    assert "a path begins with ~ and no user of this machine" in problem(path)


def test_times_of_rounds_are_durations(folder: Path) -> None:
    path = edited(
        folder, "[budget]", '[rounds]\nlinger = "1h"\ntick = "0.5s"\nresend = 3\n[budget]'
    )
    found = Setup.load(path).options
    assert (found.linger, found.tick, found.resend) == (3600.0, 0.5, 3.0)


def test_a_term_that_agents_refuse_is_named_with_the_line_of_the_scenario(folder: Path) -> None:
    scenario = folder / "scenario.toml"
    text = scenario.read_text()
    scenario.write_text(f"{text}\n[agents]\nquorum = 7\n")
    assert problem(folder / "agent.toml").startswith(
        f"{scenario}, line {line_of(scenario, 'quorum')}: agents.quorum: quorum must be at most 3"
    )
    scenario.write_text(
        text.replace('name = "suppliers"\n', "") + '\n[[variant]]\nname = "v"\nagents.quorum = 7\n'
    )
    assert 'variant "v": agents.quorum: quorum must be' in problem(folder / "agent.toml")
    scenario.write_text(text.replace("epsilon = 1.0", "epsilon = [1.0, 2.0]"))
    assert problem(folder / "agent.toml") == (
        f"{scenario}: agents run one epsilon; the scenario has 2: keep one"
    )


def test_a_whole_number_is_a_number(folder: Path) -> None:
    assert Setup.load(edited(folder, "epsilon = 1.0", "epsilon = 1")).config.budget.epsilon == 1


def test_a_syntax_error_is_named_by_its_line(folder: Path) -> None:
    path = edited(folder, "[budget]", "[budget")
    assert f"{path}, line {line_of(path, '[budget')}: not valid TOML: " in problem(path)


def test_a_stranger_among_the_peers_is_named_with_its_line(folder: Path) -> None:
    path = edited(folder, "east = ", "eats = ")
    said = problem(path)
    assert f"line {line_of(path, 'eats')}: peers.eats: no neighbour of north" in said
    assert said.endswith('allowed: east; did you mean "east"?')


def test_a_name_of_no_member_is_named_with_its_line(folder: Path) -> None:
    path = edited(folder, 'name = "north"', 'name = "nroth"')
    assert f"{path}, line 1: name: no member of suppliers is called 'nroth'" in problem(path)


@pytest.mark.thorough
def test_check_accepts_readings(folder: Path) -> None:
    done = check(folder)
    assert done.exit_code == 0, done.output
    assert "manifest " in done.output


@pytest.mark.thorough
def test_check_reports_a_missing_file_of_readings(folder: Path) -> None:
    (folder / "readings.csv").unlink()
    done = check(folder)
    assert done.exit_code == 1
    line = line_of(folder / "agent.toml", "[readings]")
    said = " ".join(done.output.split())
    assert f"line {line}: readings: cannot read the readings" in said
    assert "No such file" in said


@pytest.mark.thorough
@pytest.mark.parametrize("end", ["\n", ""])
@pytest.mark.parametrize("follow", ["true", "false"])
def test_check_reports_a_missing_column_and_no_text_of_the_file(
    folder: Path, follow: str, end: str
) -> None:
    edited(folder, 'column = "load"', f'column = "kwh"\nfollow = {follow}')
    (folder / "readings.csv").write_text(f"42.5,43.5{end}")
    done = check(folder)
    assert done.exit_code == 1
    assert "has no column kwh among the 2" in " ".join(done.output.split())
    assert "42.5" not in done.output


@pytest.mark.thorough
def test_check_reports_a_missing_key_column(folder: Path) -> None:
    edited(folder, 'column = "load"', 'column = "load"\nkey = "minute"')
    done = check(folder)
    assert done.exit_code == 1
    assert "has no column minute" in " ".join(done.output.split())


@pytest.mark.thorough
def test_check_accepts_an_empty_file_only_if_it_is_followed(folder: Path) -> None:
    (folder / "readings.csv").write_text("")
    assert check(folder).exit_code == 0
    edited(folder, 'column = "load"', 'column = "load"\nfollow = false')
    done = check(folder)
    assert done.exit_code == 1
    assert "is empty; expected a line of column names" in " ".join(done.output.split())


@pytest.mark.thorough
def test_check_reports_a_missing_program(folder: Path) -> None:
    edited(folder, 'csv = "readings.csv"\ncolumn = "load"', 'command = ["no-such-meter", "-v"]')
    done = check(folder)
    assert done.exit_code == 1
    assert "readings.command: there is no program 'no-such-meter'" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "observers.allow: missing"),
        ("allow = []", "observers.allow"),
        ('allow = ["observer:x"]', "observers.allow"),
        ('allow = ["x"]\nport = 1', "observers.port: there is no such key"),
    ],
)
def test_observers_that_cannot_be_allowed(folder: Path, text: str, says: str) -> None:
    path = folder / "agent.toml"
    path.write_text(f"{path.read_text()}[observers]\n{text}\n")
    with pytest.raises(AgentError, match=re.escape(says)):
        Setup.load(path)


def test_observers_need_certificates_and_nobody_watches_by_default(folder: Path) -> None:
    path = folder / "agent.toml"
    assert Setup.load(path).publisher() is None
    path.write_text(path.read_text() + '[observers]\nallow = ["control-room"]\n')
    made = Setup.load(path).publisher()
    assert made is not None
    assert made.allow == {"control-room"}
    with pytest.raises(AgentError, match="known by their certificates"):
        Setup.load(path).publisher(insecure=True)


def test_a_scenario_that_is_not_there_is_named_with_the_line_that_names_it(folder: Path) -> None:
    path = edited(folder, 'scenario = "scenario.toml"', 'scenario = "x/../../scenario.toml"')
    said = problem(path)
    assert said.startswith(
        f"{path}, line {line_of(path, 'scenario')}: scenario: there is no scenario "
    )
    assert str(folder.parent / "scenario.toml") in said


def test_an_endpoint_that_is_none_is_named_with_its_line(folder: Path) -> None:
    path = edited(folder, 'east = "tls/', 'east = "tls:')
    with pytest.raises(AgentError) as raised:
        Setup.load(path).transport(insecure=False)
    assert str(raised.value).startswith(f"{path}, line {line_of(path, 'east')}: peers.east: 'tls:")


def test_a_ledger_whose_folder_is_missing_says_what_to_make(folder: Path) -> None:
    path = edited(folder, 'path = "north.ledger"', 'path = "state/north.ledger"')
    with pytest.raises(LedgerError, match=r"line \d+: ledger: .*make its folder first"):
        Setup.load(path).ledger_key()
