"""The page that asks, without a browser: its form, what it answers, and whom it refuses."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from veilsum.errors import AgentError, QuestionError
from veilsum.live import ask as module
from veilsum.live.ask import AskServer, serve
from veilsum.live.ask_form import FilledForm, forms
from veilsum.live.ask_guard import MOST_BYTES, TOKEN
from veilsum.live.security import HEADERS, PageAddress
from veilsum.questions import QUESTIONS

MEAN = {
    "table": "households.csv", "question": "mean", "columns": ["kwh"],
    "options": {"--between": [["0", "40"]]}, "epsilon": "1",
}  # fmt: skip
SECRET = "7.125"  # of one household alone


class Asking:
    """A page over a folder with one table, and requests to it."""

    def __init__(self, folder: Path) -> None:
        rows = "".join(f"{k},{10 + k % 7},{'north' if k % 2 else 'south'}\n" for k in range(500))
        text = f"household,kwh,region\n500,{SECRET},north\n{rows}"
        (folder / "households.csv").write_text(text)
        (folder / "notes.md").write_text("not a table\n")
        self.folder = folder
        self.server = AskServer(folder)
        self.url = self.server.start()
        address, _, self.token = self.url.partition("#")
        self.origin = address.rstrip("/")
        self.port = int(self.origin.rpartition(":")[2])

    def send(
        self, path: str, body: Any = None, method: str = "POST", **changed: str | None
    ) -> tuple[int, str]:
        headers = {
            "origin": self.origin, TOKEN: self.token, "content-type": "application/json",
        } | {key.replace("_", "-"): value for key, value in changed.items()}  # fmt: skip
        given = {key: value for key, value in headers.items() if value is not None}
        text = body if isinstance(body, str) else json.dumps({} if body is None else body)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, text if method == "POST" else None, given)
            answer = connection.getresponse()
            assert {key: answer.headers[key] for key in HEADERS} == HEADERS
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Asking]:
    made = Asking(tmp_path)
    yield made
    made.server.close()


def test_every_question_has_a_form() -> None:
    made = {form.name: form for form in forms()}
    assert set(made) == set(QUESTIONS)
    assert next(iter(made)) == "mean"
    (between,) = made["mean"].options
    assert (between.flag, between.words, between.required) == ("--between", ("low", "high"), True)


def test_what_is_filled_in_becomes_a_question_and_its_terms() -> None:
    sent = MEAN | {
        "where_column": "region", "where_values": "north, south", "by_column": "", "id": "household",
        "cap": "3", "missing": "out", "limit": "3", "delta": "", "anyway": True, "fresh": False,
    }  # fmt: skip
    asked = FilledForm.read(sent)
    assert asked.question == QUESTIONS["mean"].make("kwh", between=(0.0, 40.0))
    assert asked.terms == {
        "epsilon": 1.0, "limit": 3.0, "cap": 3, "id": "household", "missing": "out",
        "where": {"region": ("north", "south")}, "anyway": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"epsilon": ""}, "epsilon is a number, such as 1; found nothing"),
        ({"epsilon": "a lot"}, "epsilon is a number"),
        ({"table": " "}, "choose a table"),
        ({"options": {}}, "--between"),
        ({"columns": []}, "mean COLUMN"),
        ({"question": "meen"}, "mean"),
        ({"by_column": "region"}, "groups have a column and its public values"),
        ({"where_values": "north"}, "a filter has"),
    ],
)
def test_what_is_missing_is_named(change: dict[str, Any], says: str) -> None:
    with pytest.raises(QuestionError, match=says):
        FilledForm.read(MEAN | change)


def test_the_page_has_no_data_and_tables_and_columns_are_names_alone(asking: Asking) -> None:
    status, text = asking.send("/", method="GET")
    assert status == 200
    assert "households" not in text
    assert asking.token not in text
    found = json.loads(asking.send("/tables")[1])
    assert found["tables"] == ["households.csv"]
    status, text = asking.send("/columns", {"table": "households.csv"})
    assert json.loads(text) == {"columns": ["household", "kwh", "region"]}


def test_a_plan_spends_nothing_and_an_answer_is_charged_once(asking: Asking) -> None:
    budget = asking.folder / "households.budget"
    status, text = asking.send("/plan", MEAN)
    assert (status, budget.exists()) == (200, False), text
    assert "±" in json.loads(text)["html"]
    status, first = asking.send("/ask", MEAN | {"limit": "3"})
    assert status == 200, first
    assert budget.exists()
    html = json.loads(first)["html"]
    assert "2.72 times" in html
    assert "<svg" in html
    assert SECRET not in html
    again = json.loads(asking.send("/ask", MEAN)[1])["html"]
    assert "Spent 1 of 3" in html
    assert "Spent 1 of 3" in again, "asking again costs nothing"


def test_an_error_is_said_and_shows_no_value(asking: Asking) -> None:
    for path, sent, says in (
        ("/ask", MEAN | {"columns": ["khw"]}, "no column 'khw'"),
        ("/plan", MEAN | {"table": "absent.csv"}, "absent.csv"),
        ("/columns", {"table": "notes.md"}, "notes.md"),
    ):
        status, text = asking.send(path, sent)
        assert status == 422
        assert says in json.loads(text)["error"]
        assert SECRET not in text


@pytest.mark.parametrize("body", ["", "[1]", "{", '"a"'])
def test_what_is_no_object_is_refused(asking: Asking, body: str) -> None:
    assert asking.send("/plan", body)[0] == 400


@pytest.mark.parametrize("path", ["/tables", "/columns", "/plan", "/ask"])
def test_nobody_asks_without_the_token_or_from_elsewhere(asking: Asking, path: str) -> None:
    """Each of these is what a page of another origin, or another user of this machine, could send."""
    evil = "https://evil.example"
    for changed in (
        {TOKEN: None}, {TOKEN: "guess"}, {TOKEN: asking.token[:-1]}, {"origin": evil}, {"origin": None},
        {"origin": "null"}, {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"},
    ):  # fmt: skip
        assert asking.send(path, MEAN, **changed)[0] == 403, changed
    assert asking.send(path, MEAN, host="evil.example")[0] == 421
    assert asking.send(path, MEAN, **{"content-type": "text/plain"})[0] == 415
    assert asking.send(path, "x" * (MOST_BYTES + 1))[0] == 413
    for method in ("GET", "OPTIONS", "PUT"):
        assert asking.send(path, method=method)[0] == 405
    assert not (asking.folder / "households.budget").exists()


def test_it_is_served_on_loopback_alone() -> None:
    with pytest.raises(AgentError, match=r"for this machine alone: not 0\.0\.0\.0:80"):
        AskServer(address=PageAddress("0.0.0.0", 80))


def test_serving_says_where_opens_a_browser_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    opened: list[str] = []

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_until", interrupted)
    serve(tell=said.append, browser=opened.append)
    (url,) = opened
    assert url in said[0]
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection("127.0.0.1", int(url.split(":")[2].split("/")[0])).connect()


def test_the_command_without_arguments_is_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from veilsum.cli.app import app

    served: list[bool] = []
    monkeypatch.setattr(module, "serve", lambda: served.append(True))
    assert CliRunner().invoke(app, ["ask"]).exit_code == 0
    assert served == [True]
    assert CliRunner().invoke(app, ["ask", "--eps", "1"]).exit_code != 0
    assert served == [True]
