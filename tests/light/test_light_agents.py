"""An agent needs none of scipy, numba, pandas, pyarrow and matplotlib, and computes the same."""

import json
import subprocess
import sys
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from docs.generate import PACKAGES, public_names
from packaging.utils import canonicalize_name

from tests.light import facts
from tests.light.without import BLOCKED
from tools.locks import extras
from veilsum._extras import EXTRAS, install_command
from veilsum.agents.local_cluster.plan import free_ports

ROOT = Path(__file__).resolve().parents[2]
LIGHT = [sys.executable, "-m", "tests.light.without"]
SCENARIO = """
name = "pair"
network = {graph = "links.csv", weights = "lazy-metropolis"}
family = {name = "log-normal-1p", sigma = 1.0, bounds = [0.0, 100.0]}
signals = {draw = {mu = 2.0}}
privacy = {protect = "signal", epsilon = 1.0}
algorithm = {name = "learn", rounds = 4}
"""
AGENT = """
name = "{own}"
scenario = "scenario.toml"
listen = ["tls/127.0.0.1:{port}"]
peers = {{ {other} = "tls/127.0.0.1:{there}" }}
keys = {{ folder = "keys" }}
ledger = {{ path = "{own}.ledger" }}
budget = {{ epsilon = 50.0 }}
readings = {{ csv = "{own}.csv" }}
rounds = {{ linger = 5.0 }}
"""


def environment(*without: str) -> dict[str, str]:
    import os

    paths = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    return os.environ | {"PYTHONPATH": paths, "WITHOUT": ",".join(without)}


def light(*words: str, cwd: Path = ROOT) -> Any:
    return subprocess.run(
        [*LIGHT, *words], cwd=cwd, env=environment(), capture_output=True, text=True, timeout=120
    )


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Two agents from their files to their results: certificates, loopback, nothing of `sim`."""
    folder = tmp_path_factory.mktemp("pair")
    (folder / "scenario.toml").write_text(SCENARIO)
    (folder / "plan.toml").write_text(SCENARIO.replace("log-normal-1p", "normal"))
    (folder / "links.csv").write_text("source,target\na,b\n")
    ports = dict(zip("ab", free_ports(2), strict=True))
    for own, other in (("a", "b"), ("b", "a")):
        text = AGENT.format(own=own, other=other, port=ports[own], there=ports[other])
        (folder / f"{own}.toml").write_text(text)
        (folder / f"{own}.csv").write_text("load\n" + "6.5\n" * 4)
    keys = """
from veilsum.agents.pki import Authority
made = Authority.create("keys")
for label in "ab":
    made.issue(label, hosts=["127.0.0.1"])
"""
    done = light("-c", keys, cwd=folder)
    assert done.returncode == 0, done.stderr
    running = [
        subprocess.Popen(
            [*LIGHT, "-m", "veilsum.cli", "agent", f"{own}.toml", "--json"], cwd=folder,
            env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for own in "ab"
    ]  # fmt: skip
    try:
        ended = [(p.communicate(timeout=90), p.returncode) for p in running]
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
    return {"folder": folder, "ended": ended}


def test_a_pair_of_agents_runs_from_its_files_to_its_results(pair: dict[str, Any]) -> None:
    for (out, err), code in pair["ended"]:
        assert code == 0, err
        assert max(json.loads(line).get("round", 0) for line in out.splitlines()) == 4


VERBS = """
import json, sys
from typer.testing import CliRunner
from veilsum.cli.app import app
found = {}
for line in sys.stdin.read().splitlines():
    done = CliRunner().invoke(app, line.split())
    found[line] = [done.exit_code, done.output, repr(done.exception)]
print(json.dumps(found))
"""
STARTING = (
    "agent a.toml --check", "doctor a.toml", "status a.toml", "keys list --dir keys",
    "keys init other", "keys request c --dir other", "ledger show a.ledger",
    "ledger verify a.ledger", "ledger export a.ledger", "ledger report a.ledger",
    "ledger report a.ledger --html page.html", "ledger backup a.ledger copy",
    "ledger restore copy again.ledger --key a.ledger.key", "init made.toml",
    "init new.toml --agent a --scenario scenario.toml",
    "schema agent", "families", "algorithms", "plan plan.toml --agents",
    "report scenario.toml --out sign.html", "graph links.csv",
)  # fmt: skip
REFUSED = {  # verb -> the extra that its one line names
    "run scenario.toml": "sim",
    "sweep scenario.toml": "sim",
    "audit scenario.toml": "sim",
    "up scenario.toml": "sim",
    "reproduce fig1": "sim,plot",
}


@pytest.fixture(scope="module")
def verbs(pair: dict[str, Any]) -> Any:
    done = subprocess.run(
        [*LIGHT, "-c", VERBS], input="\n".join([*STARTING, *REFUSED]), cwd=pair["folder"],
        env=environment(), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("line", STARTING)
def test_verbs_of_agents_need_nothing_of_the_simulator(line: str, verbs: Any) -> None:
    code, output, exception = verbs[line]
    assert code == 0, (output, exception)


@pytest.mark.parametrize("line", REFUSED)
def test_other_verbs_name_the_extra_before_they_start(line: str, verbs: Any) -> None:
    code, output, _ = verbs[line]
    assert code == 1
    assert output.count("\n") == 1
    assert install_command(REFUSED[line]) in output


def test_up_left_nothing_behind(pair: dict[str, Any], verbs: Any) -> None:
    assert "up scenario.toml" in verbs
    assert not list(pair["folder"].glob("pair-agents*"))


MASKED = """
import pathlib, tempfile
from tests.agents.runtime.masked_sites import Sites, terms
with tempfile.TemporaryDirectory() as folder:
    readings = {str(k): [4.0 + k / 4] for k in range(4)}
    sites = Sites(pathlib.Path(folder), terms(4), readings).start_all()
    sites.until(lambda: sites.done)
    results = [sites.result(label) for label in readings]
    assert all(found.exit_code == 0 and found.half_width[0] < 2 for found in results)
    print(*{found.estimate[0].hex() for found in results})
    for node in sites.nodes.values():
        node.close()
"""


def test_a_masked_sum_of_four_nodes(pair: dict[str, Any]) -> None:
    del pair
    done = light("-c", MASKED)
    assert done.returncode == 0, done.stderr
    (sum_of_all,) = done.stdout.split()  # one number, the same at all of them
    assert 0 < float.fromhex(sum_of_all) < 10


def test_what_agents_compute_is_the_same_to_the_last_digit() -> None:
    done = light("-m", "tests.light.facts")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(json.dumps(facts.facts()))


API = """
import veilsum as vs
from veilsum.errors import MissingExtraError
normal, request = vs.families.Normal(sigma=1.0), vs.privacy.SignalDP(epsilon=1.0)
problem = vs.simulation.Problem(
    vs.networks.metropolis("ring:5"), vs.algorithms.Average(), normal,
    vs.simulation.SyntheticSignals(normal, {"mu": 1.0}, 5, seed=1), request, rounds=3,
)
ways = (
    lambda: vs.estimate([1.0] * 5, "ring:5", normal, request),
    lambda: vs.sweep({"mu": 1.0}, "ring:5", normal, request),
    lambda: vs.simulation.simulate(problem),
    lambda: vs.networks.metropolis("ring:5").weights,
    lambda: vs.networks.load("ring:5").adjacency,
    lambda: vs.networks.ring(5).save("ring.parquet"),
    lambda: vs.signals.as_signals("a.csv"),
    lambda: vs.paper.find(),
)
for way in ways:
    try:
        way()
    except MissingExtraError as error:
        assert ": pip install " in str(error), error
        print("refused", error)
"""


def test_calls_that_need_an_extra_name_it(pair: dict[str, Any]) -> None:
    done = light("-c", API, cwd=pair["folder"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("refused") == 8, done.stdout


def of(*extras: str) -> tuple[str, ...]:
    return tuple(package for package, extra in EXTRAS.items() if extra in extras)


def test_the_blocker_blocks_every_package_of_the_extras() -> None:
    assert set(of("sim", "plot")) <= BLOCKED
    assert "ModuleNotFoundError" in light("-c", "import scipy").stderr
    hidden = light("-c", "from importlib.metadata import version; version('scipy')")
    assert "PackageNotFoundError" in hidden.stderr


def test_every_package_of_an_extra_is_known() -> None:
    """By the name that is imported: an error of Python says that one."""
    packages = packages_distributions()
    for extra, requirements in extras().items():
        for requirement in requirements if extra not in ("core", "all") else ():
            name = canonicalize_name(requirement.name)
            made = [m for m, owners in packages.items() if name in map(canonicalize_name, owners)]
            if name != "mpich":  # libraries and programs, no module
                assert set(made) & EXTRAS.keys(), f"{requirement} of {extra} is not in EXTRAS"
    declared = {str(canonicalize_name(r.name)) for each in extras().values() for r in each}
    for package, extra in EXTRAS.items():
        owners = {str(canonicalize_name(owner)) for owner in packages[package]}
        assert owners & declared
        assert owners & {str(canonicalize_name(r.name)) for r in extras()[extra]}


WITHOUT_AGENTS = (
    "keys init authority", "init --fleet demo north east west", "agent a.toml", "doctor a.toml",
    "status a.toml", "watch watch.toml", "up scenario.toml",
)  # fmt: skip


def test_verbs_of_agents_name_their_extra(pair: dict[str, Any]) -> None:
    done = subprocess.run(
        [*LIGHT, "-c", VERBS], input="\n".join(WITHOUT_AGENTS), cwd=pair["folder"],
        env=environment(*of("agents", "live")), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for line, (code, output, exception) in json.loads(done.stdout).items():
        assert code == 1, (line, output, exception)
        assert install_command("agents") in output, (line, output, exception)
        assert output.count("\n") == 1


NAMES = """
import importlib, json, sys
from veilsum.errors import MissingExtraError
found = {True: 0, False: 0}
for package, names in json.load(sys.stdin).items():
    module = importlib.import_module(package)
    for name in names:
        try:
            getattr(module, name)
        except MissingExtraError as error:
            assert ": pip install " in str(error), error
            found[False] += 1
        else:
            found[True] += 1
print(*found.values())
"""


def test_every_public_name_is_there_or_names_its_extra() -> None:
    names = {package: public_names(import_module(package)) for package in PACKAGES}
    done = subprocess.run(
        [*LIGHT, "-c", NAMES], input=json.dumps(names), cwd=ROOT, env=environment(*EXTRAS),
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    there, refused = map(int, done.stdout.split())
    assert there > 300
    assert refused > 10


def test_agents_load_neither_simulator_nor_figures() -> None:
    code = """
import sys
import veilsum.agents.config, veilsum.agents.runtime, veilsum.agents.transport.zenoh
import veilsum.agents.doctor, veilsum.agents.masked, veilsum.agents.ledger, veilsum.agents.results
import veilsum.agents.readings.csv, veilsum.cli.app
print(*{name.partition(".")[0] for name in sys.modules})
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert not set(done.stdout.split()) & BLOCKED
