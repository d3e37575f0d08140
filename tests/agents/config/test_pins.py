"""[agents] nonce and signing_keys, the signing key of a site, and what is said where one is missing."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from typer.testing import CliRunner

from tests.agents.config.setups import NONCE, PINS, write_masked_setup
from tests.agents.doctor.broken import replace_in
from veilsum.agents.config import Setup
from veilsum.agents.pki import SigningKey
from veilsum.agents.pki.certificates import pem_of
from veilsum.agents.scenario_terms import problem_and_manifest
from veilsum.agents.starter import starter
from veilsum.cli.app import app
from veilsum.errors import AgentError, ScenarioError
from veilsum.scenario import Scenario


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return write_masked_setup(tmp_path)


def load(site: Path) -> Setup:
    return Setup.load(site / "agent.toml")


def pinned(site: Path) -> dict[str, str]:
    table: dict[str, str] = tomllib.loads((site / "signing-keys.toml").read_text())["signing_keys"]
    return table


def test_the_manifest_has_the_pinned_keys_and_the_nonce(site: Path) -> None:
    setup = load(site)
    assert setup.manifest.nonce == NONCE
    assert dict(zip(setup.manifest.labels, setup.manifest.signing_keys, strict=True)) == pinned(
        site
    )
    assert setup.signing_key().public_key().public_bytes_raw().hex() == pinned(site)["north"]


def test_a_table_in_the_scenario_is_the_same_manifest_as_a_file(site: Path) -> None:
    before = load(site).manifest.digest
    table = ", ".join(f'{label} = "{key}"' for label, key in pinned(site).items())
    replace_in(site / "scenario.toml", '"signing-keys.toml"', "{" + table + "}")
    (site / "signing-keys.toml").unlink()
    assert load(site).manifest.digest == before


def test_what_is_missing_is_proposed_and_the_proposal_works(site: Path) -> None:
    replace_in(site / "scenario.toml", PINS, "\n[agents]\n")
    with pytest.raises(AgentError) as said:
        load(site)
    text = str(said.value)
    assert "scenario.toml, line" in text
    assert "agents.nonce: missing" in text
    lines = re.findall(r"add (\w+ = \"[^\"]+\") to \[agents\]", text)
    assert [line.split()[0] for line in lines] == ["nonce", "signing_keys"]
    with pytest.raises(AgentError) as again:
        load(site)
    assert lines[0] not in str(again.value)  # a fresh one each time
    replace_in(site / "scenario.toml", "[agents]\n", "[agents]\n" + "\n".join(lines) + "\n")
    assert load(site).manifest.nonce == lines[0].split('"')[1]


def test_a_masked_sum_is_planned_and_simulated_without_pins(site: Path) -> None:
    replace_in(site / "scenario.toml", PINS, "")
    loaded = Scenario.load(site / "scenario.toml")
    _, manifest = problem_and_manifest(loaded, pinned=False)
    assert manifest.masked
    assert not manifest.pinned
    words = ["plan", str(site / "scenario.toml"), "--epsilon", "1", "--agents"]
    done = CliRunner().invoke(app, [*words, "--colluders", "1"])
    assert done.exit_code == 0, done.output
    assert "masked-sum" in done.output
    assert "masked-sum on" not in done.output.partition("Left out")[2]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (NONCE, "xyz", r'agents.nonce: found "xyz"; allowed: 32 hexadecimal digits'),
        (f'"{NONCE}"', "7", "agents.nonce: found 7; allowed: 32 hexadecimal"),
        ("signing-keys.toml", "nowhere.toml", r"line \d+: agents.signing_keys: .*cannot be read"),
        ("signing-keys.toml", "links.csv", r"agents.signing_keys: .*cannot be read"),
        ("signing-keys.toml", "agent.toml", r"must have one table, \[signing_keys\]"),
        ('"signing-keys.toml"', "{north = 7}", "agents.signing_keys"),
        ('"signing-keys.toml"', '{north = "ab"}', "signing_keys lacks east, west"),
    ],
)
def test_pins_that_cannot_be_are_refused_with_their_line(
    site: Path, old: str, new: str, said: str
) -> None:
    replace_in(site / "scenario.toml", old, new)
    with pytest.raises((AgentError, ScenarioError), match=said):
        load(site)


def test_pins_without_a_masked_sum_are_refused(site: Path) -> None:
    for old, new in (('mode = "masked"\ncolluders = 1', ""), ('"masked-sum"', '"average"')):
        replace_in(site / "scenario.toml", old, new)
    with pytest.raises(
        AgentError, match=r"line \d+: agents.signing_keys: .*belong to a masked sum"
    ):
        load(site)
    replace_in(site / "scenario.toml", PINS, "")
    with pytest.raises(AgentError, match="is no masked sum"):
        load(site).signing_key()


def another(folder: Path) -> None:
    SigningKey.create(folder / "keys" / "north.signing.key", force=True)


def elliptic(folder: Path) -> None:
    file = folder / "keys" / "north.signing.key"
    file.write_bytes(pem_of(ec.generate_private_key(ec.SECP256R1())))


def encrypted(folder: Path) -> None:
    file = folder / "keys" / "north.signing.key"
    kind = serialization.BestAvailableEncryption(b"secret")
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    file.write_bytes(SigningKey.load(file).private.private_bytes(*form, kind))


@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        (lambda folder: (folder / "keys" / "north.signing.key").unlink(), "is missing"),
        (lambda folder: (folder / "keys" / "north.signing.key").chmod(0o640), "read by others"),
        (another, "is not the key that the scenario pins for north"),
        (elliptic, "holds no Ed25519 key"),
        (encrypted, "holds no Ed25519 key"),
        (
            lambda folder: replace_in(folder / "agent.toml", '[keys]\nfolder = "keys"\n', ""),
            'needs [keys] signing = "north.signing.key"',
        ),
    ],
)
def test_a_key_that_cannot_sign_for_the_agent_is_refused(
    site: Path, breaks: Callable[[Path], object], said: str
) -> None:
    breaks(site)
    with pytest.raises(AgentError, match=re.escape(said)) as found:
        load(site).signing_key()
    assert "PRIVATE" not in str(found.value)


def test_the_signing_key_may_lie_elsewhere(site: Path) -> None:
    (site / "keys" / "north.signing.key").rename(site / "mine.key")
    replace_in(site / "agent.toml", 'folder = "keys"', 'folder = "keys"\nsigning = "mine.key"')
    assert load(site).signing_key().public_key().public_bytes_raw().hex() == pinned(site)["north"]


def test_the_first_file_of_a_site_needs_no_pins_yet(site: Path) -> None:
    replace_in(site / "scenario.toml", PINS, "")
    (site / "agent.toml").unlink()
    words = ["init", str(site / "agent.toml"), "--agent", "north"]
    done = CliRunner().invoke(app, [*words, "--scenario", str(site / "scenario.toml")])
    assert done.exit_code == 0, done.output
    text = (site / "agent.toml").read_text()
    assert tomllib.loads(text)["budget"] == {"epsilon": 1.0}
    assert "north.signing.key" in text
    assert "veilsum keys request" in text
    (site / "scenario.toml").write_text((site / "scenario.toml").read_text() + PINS)
    assert load(site).signing_key() is not None


def test_the_budget_of_the_first_file_covers_all_attempts() -> None:
    text = starter(Path(__file__).parents[3] / "examples" / "masked-feeder.toml", "0")
    assert re.search(r"^epsilon = 1 +# a query of one attempt$", text, re.M)
