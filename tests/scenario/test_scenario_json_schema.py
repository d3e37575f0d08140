"""JSON Schemas accept every example, and refuse what the loader refuses in types and keys."""

import json
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, BeforeValidator
from typer.testing import CliRunner

from tests.agents.config.setups import AGENT, SCENARIO
from tests.docs.pages import DOCS, PROJECT
from tests.scenario.schema_rules import problems
from veilsum.agents.config import agent_schema
from veilsum.agents.config_tables import AgentConfig
from veilsum.agents.observers.watch_file import WatchConfig
from veilsum.cli.app import app
from veilsum.errors import ScenarioError
from veilsum.scenario import Scenario, template
from veilsum.scenario.json_schema import DURATION, scenario_schema, schema_of
from veilsum.scenario.loader import validate

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = [
    *sorted((ROOT / "examples").glob("*.toml")),
    ROOT / "src/veilsum/scenario/template.toml",
]
BLOCK = re.compile(r"^```toml\n(.*?)^```", re.DOTALL | re.MULTILINE)
SCHEMAS = {"scenario": scenario_schema(), "agent": agent_schema()}


def published() -> list[tuple[str, str]]:
    """Whole files in the pages: those of agents name their scenario, watch files sites too."""
    found = [text for page in (*PROJECT, *DOCS) for text in BLOCK.findall(page.read_text())]
    whole = [text for text in found if re.search(r"^(name|scenario) = ", text, re.M)]
    return [(_kind(text), text) for text in whole]


def _kind(text: str) -> str:
    if re.search(r"^\[sites\]", text, re.M):
        return "watch"
    return "agent" if re.search(r"^scenario = ", text, re.M) else "scenario"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_accepted(path: Path) -> None:
    assert problems(SCHEMAS["scenario"], tomllib.loads(path.read_text())) == []


def test_every_file_in_the_pages_is_accepted() -> None:
    files = published()
    assert {kind for kind, _ in files} == {"scenario", "agent", "watch"}
    for kind, text in files:
        if kind == "watch":
            WatchConfig.model_validate(tomllib.loads(text))
        else:
            assert problems(SCHEMAS[kind], tomllib.loads(text)) == []


WRONG_SCENARIOS = [
    ("[network]", "[netwrok]"), ("graph = ", "grahp = "), ("sigma = 10.0", "sgima = 10.0"),
    ("rounds = 60", "ronuds = 60"), ("mu = 50.0", "um = 50.0"), ("rounds = 60", "rounds = 0"),
    ("rounds = 60", 'rounds = "60"'), ("rounds = 60", "rounds = 60\ndimenson = 1.0"),
    ("epsilon = 1.0", "epsilon = 0.0"), ("epsilon = 1.0", 'epsilon = "1"'),
    ("epsilon = 1.0", "epsilon = []"), ('protect = "signal"', 'protect = "singal"'),
    ('name = "average"', 'name = "avarage"'), ('name = "normal"', 'name = "nromal"'),
    ("radius = inf", "radius = true"), ("rounds = 60", "rounds = 60\n[agents]\nepcoh = 2"),
    ("rounds = 60", "rounds = 60\n[record]\nevery = 0"), ("rounds = 60\n", ""),
    ('protect = "signal"\n', ""), ('name = "suppliers"', 'name = "a b"'),
    ("rounds = 60", 'rounds = 60\n[[variant]]\nname = "a"\nsed = 1'),
    ("rounds = 60", "rounds = 60\n[[variant]]\nseed = 1"),
    ("rounds = 60", "rounds = 60\n[network.options]\nsise = 3"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), WRONG_SCENARIOS)
def test_a_mistake_in_a_scenario_is_refused_by_schema_and_loader(old: str, new: str) -> None:
    assert problems(SCHEMAS["scenario"], tomllib.loads(SCENARIO)) == []
    text = SCENARIO.replace(old, new)
    assert text != SCENARIO
    assert problems(SCHEMAS["scenario"], tomllib.loads(text))
    with pytest.raises(ScenarioError):
        Scenario.parse(text)


WRONG_AGENTS = [
    ("[ledger]", "[legder]"), ("column = ", "colunm = "), ('name = "north"\n', ""),
    ("listen = [", "listen = [7447, "), ('listen = ["tls/127.0.0.1:0"]', "listen = []"),
    ("epsilon = 1.0", 'epsilon = "1.0"'), ("epsilon = 1.0", "epsilon = -1"),
    ("epsilon = 1.0", 'epsilon = 1.0\nunit = "streem"'), ('folder = "keys"', "folder = 5"),
    ('path = "north.ledger"', 'path = "x"\nconfirmations = 0'), ('path = "north.ledger"', ""),
    ('east = "tls/127.0.0.1:7448"', "east = 7448"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), WRONG_AGENTS)
def test_a_mistake_in_an_agents_file_is_refused_by_schema_and_loader(old: str, new: str) -> None:
    assert problems(SCHEMAS["agent"], tomllib.loads(AGENT)) == []
    text = AGENT.replace(old, new)
    assert text != AGENT
    assert problems(SCHEMAS["agent"], tomllib.loads(text))
    assert validate(AgentConfig, tomllib.loads(text))[1]


def test_variants_may_complete_a_scenario() -> None:
    base = SCENARIO.replace('[algorithm]\nname = "average"\nrounds = 60\n', "")
    assert "missing algorithm" in problems(SCHEMAS["scenario"], tomllib.loads(base))
    whole = f'{base}[[variant]]\nname = "a"\nalgorithm = {{ name = "average", rounds = 5 }}\n'
    assert problems(SCHEMAS["scenario"], tomllib.loads(whole)) == []


@pytest.mark.parametrize("kind", SCHEMAS)
def test_the_command_prints_the_schema(kind: str) -> None:
    done = CliRunner().invoke(app, ["schema", kind])
    assert done.exit_code == 0
    assert json.loads(done.stdout) == SCHEMAS[kind]
    assert CliRunner().invoke(app, ["schema", "ledger"]).exit_code == 2


def test_no_schema_allows_null_or_names_another_file() -> None:
    for schema in SCHEMAS.values():
        text = json.dumps(schema)
        assert "null" not in text
        assert set(re.findall(r'"\$ref": "([^"]*/)', text)) == {"#/$defs/"}


def test_durations_and_validators_that_convert() -> None:
    class Known(BaseModel):
        def _duration(value: Any) -> float:  # noqa: N805
            return float(value)

        every: Annotated[float, BeforeValidator(_duration)]

    made = schema_of(Known, "known")["properties"]["every"]
    assert made == DURATION
    for good in ("90s", "1.5h", "2w", 90, 0.5):
        assert problems(made, good) == []
    for bad in ("90", "1 h", "-1h", -1, True, "1h\n1h"):
        assert problems(made, bad)

    class Unknown(BaseModel):
        every: Annotated[float, BeforeValidator(lambda value: value)]

    with pytest.raises(TypeError, match="what <lambda> accepts is not known"):
        schema_of(Unknown, "unknown")


def test_the_template_is_the_file_that_is_checked() -> None:
    assert template() == EXAMPLES[-1].read_text()
