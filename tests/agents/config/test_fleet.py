"""`veilsum init --fleet`: files that load, agree with one another, and hold no secret."""

import contextlib
import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.scenario.schema_rules import problems
from veilsum.agents.config import Setup, agent_schema
from veilsum.agents.fleet import COPIED, GRAPHS, Fleet, SiteAddress
from veilsum.agents.pki import Authority, install, make_request
from veilsum.agents.scenario_terms import problem_and_manifest
from veilsum.cli.app import app
from veilsum.cli.init import commands, network_name
from veilsum.errors import AgentError
from veilsum.scenario import Scenario

SITES = ("north", "east", "west")
FAR = ("north=north.example", "east=10.0.0.2:7500", "west=west.example:7501")


def init(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["init", *words])
    assert done.exit_code == code, done.output
    return done.output


@pytest.mark.parametrize("masked", [False, True], ids=["local", "masked"])
@pytest.mark.parametrize("sites", [SITES, FAR], ids=["here", "far"])
def test_every_site_loads_and_all_have_one_manifest(
    tmp_path: Path, sites: tuple[str, ...], masked: bool
) -> None:
    fleet = Fleet("demo", sites, masked=masked, epsilon=0.5, bounds=(-1.5, 4.0), unit='kWh "net"')
    fleet.write(tmp_path)
    authority = Authority.create(tmp_path / "authority")
    for label in SITES:
        made, _ = make_request(label, tmp_path / "sites" / label / "keys")
        authority.sign(made)
    digests = set()
    for label in SITES:
        folder = tmp_path / "sites" / label
        assert problems(agent_schema(), tomllib.loads((folder / "agent.toml").read_text())) == []
        install(label, tmp_path / "authority", folder / "keys")
        setup = Setup.load(folder / "agent.toml")
        setup.credentials()
        setup.check_readings()
        assert setup.manifest.masked is masked
        assert setup.manifest.epsilon == 0.5
        assert setup.config.budget.epsilon == 0.5
        assert setup.problem.family.bounds == (-1.5, 4.0)
        assert set(setup.config.peers) == set(SITES) - {label}
        digests.add(setup.manifest.digest)
    assert len(digests) == 1
    assert setup.manifest.rounds == 0


def test_nothing_secret_is_written_and_the_rest_is_private(tmp_path: Path) -> None:
    for path in Fleet("demo", SITES, masked=True).write(tmp_path / "fleet"):
        assert b"PRIVATE KEY" not in path.read_bytes()
    suffixes = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
    assert not suffixes & {".key", ".pem", ".request", ".ledger"}
    for name in Fleet("demo", SITES).folders():
        folder = tmp_path / "fleet" / name
        assert not list(folder.iterdir())
        assert folder.stat().st_mode & 0o077 == 0


def test_two_fleets_of_masked_sums_have_different_nonces() -> None:
    made = {Fleet("demo", SITES, masked=True).files()["scenario.toml"] for _ in range(2)}
    assert len(made) == 2
    assert len({Fleet("demo", SITES).files()["scenario.toml"] for _ in range(2)}) == 1


def test_what_is_there_is_named_and_kept(tmp_path: Path) -> None:
    words = ("--fleet", str(tmp_path / "demo"), *SITES)
    init(*words)
    scenario = tmp_path / "demo" / "scenario.toml"
    readings = tmp_path / "demo" / "sites" / "east" / "readings.csv"
    scenario.write_text("mine")
    readings.write_text("time,value\nreal,1\n")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    refused = CliRunner().invoke(app, ["init", *words])
    assert refused.exit_code == 1
    assert "scenario.toml" in refused.stderr
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    init(*words, "--force")
    assert scenario.read_text() != "mine"
    assert readings.read_text() == "time,value\nreal,1\n"  # may be real: never replaced


def test_one_file_that_is_there_is_enough(tmp_path: Path) -> None:
    (tmp_path / "links.csv").write_text("source,target\n")
    with pytest.raises(AgentError, match=r"has links\.csv already"):
        Fleet("demo", SITES).write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["links.csv"]


def test_at_most_ten_commands_are_printed_and_each_is_one_of_ours(tmp_path: Path) -> None:
    for sites in (SITES, FAR):
        folder = tmp_path / sites[1].replace("=", "-").replace(":", "-")
        said = init("--fleet", str(folder), *sites)
        found = commands((folder / "COMMANDS.md").read_text())
        assert sum("veilsum" in command for command in found) == 10
        assert all(f"    {command}\n" in said for command in found)
        for verb, rest in re.findall(r"veilsum ((?:keys )?\w+)(.*)", "\n".join(found)):
            known = options_of(verb)
            assert set(re.findall(r" (--[a-z-]+)", rest)) <= known, verb
    machines = [line for line in said.splitlines() if line.startswith("    # on ")]
    assert len(machines) == 5, "who types what on which machine"


def options_of(verb: str) -> set[str]:
    """The options of a verb of the command line; KeyError if there is none."""
    from docs.generate import commands as verbs

    return {flag for each in dict(verbs())[verb].params for flag in each.opts}


def test_commands_name_the_files_that_are_there() -> None:
    for sites in (SITES, FAR):
        made = Fleet("demo", sites)
        page = made.files()["COMMANDS.md"]
        copied = {*COPIED}  # double braces in these are of other languages
        assert not [
            path for path, text in made.files().items() if "{{" in text and path not in copied
        ]
        for file in re.findall(r"(?<![/\w-])([\w-]+\.(?:toml|csv))", page):
            assert file in (*made.files(), "agent.toml", "signing-keys.toml"), file
    assert "10.0.0.2:7500" in page
    assert "west.example:7501" in page


def test_sites_of_one_machine_share_no_port() -> None:
    """Wherever the machine is: links, observers, metrics and page of each have a port of their own."""
    sites = ("a=far.example:7447", "b=FAR.example:7448", "c=other.example", "d", "e=localhost:7500")
    files = Fleet("demo", sites).files()
    used: dict[str, list[str]] = {"far": [], "other": [], "here": []}
    machines = {"a": "far", "b": "far", "c": "other", "d": "here", "e": "here"}
    for label, machine in machines.items():
        unit = files[f"sites/{label}/veilsum-agent.service"]
        options = re.findall(r"--(?:metrics|page) (?:127.0.0.1:)?(\d+)", unit)
        assert len(options) == 2
        agent = tomllib.loads(files[f"sites/{label}/agent.toml"])
        listening = [*agent["listen"], agent["observers"]["listen"]]
        used[machine] += [*options, *(text.rpartition(":")[2] for text in listening)]
    for ports in used.values():
        assert len(set(ports)) == len(ports)
    targets = re.findall(r'targets: \["(.*?)"\]', files["monitoring/prometheus.yml"])
    assert len(set(targets)) == len(sites)
    with pytest.raises(AgentError, match=r"b has the address far\.example:8447, at which a serves"):
        Fleet("demo", ("a=far.example:7447", "b=far.example:8447"))


def test_addresses_and_what_is_listened_on() -> None:
    found = [SiteAddress.parse(text, k) for k, text in enumerate((*FAR, "south"))]
    assert [site.endpoint for site in found] == [
        "tls/north.example:7447", "tls/10.0.0.2:7500", "tls/west.example:7501",
        "tls/127.0.0.1:7450",
    ]  # fmt: skip
    assert [site.listen for site in found] == [
        "tls/0.0.0.0:7447", "tls/0.0.0.0:7500", "tls/0.0.0.0:7501", "tls/127.0.0.1:7450",
    ]  # fmt: skip
    assert [site.here for site in found] == [False, False, False, True]
    assert [site.watched.port for site in found] == [8447, 8500, 8501, 8450]


@pytest.mark.parametrize(
    "site",
    ["", "North", "a_b", "ca", "control-room", "a b", "-a", "../x", "a" * 33, "a=", "a=h:", "a=h:0",
     "a=h:65536", "a=h:64536", "a=h:1:2", "a=h/x", "a=::1", "a=[::1", "a=ho st", 'a=h"', "a=h..x"],
)  # fmt: skip
def test_what_is_no_site_is_refused(site: str) -> None:
    with pytest.raises(AgentError, match=r"cannot be the label|expected SITE=HOST"):
        Fleet("demo", (site, "east", "west")).addresses  # noqa: B018


@pytest.mark.parametrize("host", ["[::1]", "[2001:db8::7]:7501"])
def test_an_address_that_no_agent_would_connect_to_is_refused(host: str) -> None:
    with pytest.raises(
        AgentError, match=r"a cannot be reached at .* use a host name that resolves"
    ):
        Fleet("demo", (f"a={host}", "east", "west")).addresses  # noqa: B018


@pytest.mark.parametrize(
    ("graph", "count"), [("ring", 5), ("complete", 10), ("path", 4), ("star", 4)]
)
def test_graphs(graph: str, count: int, tmp_path: Path) -> None:
    fleet = Fleet("demo", ("a", "b", "c", "d", "e"), graph=graph)
    assert len(fleet.links) == count
    fleet.write(tmp_path)
    _, manifest = problem_and_manifest(Scenario.load(tmp_path / "scenario.toml"))
    for label in "abcde":
        near = {site.label for site in fleet.neighbours(label)}
        assert near == set(manifest.link_weights(label))
    assert graph in GRAPHS
    assert Fleet("two", ("a", "b"), graph=graph).links == (("a", "b"),)


def test_a_schedule_reaches_the_manifest(tmp_path: Path) -> None:
    Fleet("demo", SITES, every="1h").write(tmp_path)
    _, manifest = problem_and_manifest(Scenario.load(tmp_path / "scenario.toml"))
    assert (manifest.every, manifest.grace) == (3600.0, 600.0)
    assert len((tmp_path / "sites/north/readings.csv").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--fleet", "x", "north"), "at least 2 sites"),
        (("--fleet", "x", "--masked", "a", "b"), "at least 3 sites where 1 of the others may"),
        (("--fleet", "x", "a", "a"), "2 sites have the label a"),
        (("--fleet", "x", "a=h:1", "b=h:1"), "2 sites have the address h:1"),
        (("--fleet", "x", "a", "b", "--bounds", "1", "1"), "--bounds must be two numbers"),
        (("--fleet", "x", "a", "b", "--bounds", "0", "inf"), "--bounds must be two numbers"),
        (("--fleet", "x", "a", "b", "--epsilon", "nan"), "--epsilon must be a number above 0"),
        (("--fleet", "x", "a", "b", "--graph", "tree"), "--graph must be one of ring"),
        (("--fleet", "x", "a", "b", "--every", "0s"), "--every must be above 0"),
        (("--fleet", "x", "a", "b", "--every", "soon"), "every must be"),
        (("--fleet", "x", "a", "b", "--unit", "k\nWh"), "--unit must be a unit"),
        (("--fleet", "x", "a", "b", "--agent", "a"), "--agent or --fleet"),
        (("--masked",), "--masked is an option of --fleet"),
        (("a.toml", "b.toml"), "init writes one file; found 2 paths"),
    ],
)
def test_wrong_usage_writes_nothing(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    with contextlib.chdir(tmp_path):
        done = CliRunner().invoke(app, ["init", *words])
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_folder_gives_the_name() -> None:
    assert network_name(Path("/x/My fleet")) == "My-fleet"
    assert network_name(Path("/")) == "fleet"
