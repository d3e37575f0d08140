"""The house rules: imports go one way and stay light, files stay readable."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "murmura"
HEAVY = {
    "cvxpy", "dp_accounting", "matplotlib", "networkx", "numba", "pandas", "pyarrow", "pydantic",
    "rich", "scipy", "typer", "xarray", "zenoh", "cryptography", "prometheus_client", "mpi4py",
}  # fmt: skip

ORDER = (  # each part knows those before it at most
    "network", "families", "signals", "laws", "privacy", "engine", "cluster", "audits", "theory",
    "report", "scenario", "agent", "paper", "cli",
)  # fmt: skip
ALONE = {  # and these less than that
    "families": {"network"},
    "signals": {"network"},
    "laws": {"network", "families", "signals"},
    "privacy": {"network", "signals"},
    "theory": {"audits"},
}
BELOW = {
    part: {*ORDER[k + 1 :], *ALONE.get(part, ())} for k, part in enumerate(ORDER) if part != "cli"
}


def loaded_by(code: str) -> set[str]:
    listing = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", listing], check=True, capture_output=True, text=True
    )
    return set(done.stdout.split())


def test_importing_murmura_is_light():
    assert not loaded_by("import murmura") & (HEAVY | {"numpy"})


def test_importing_the_parts_loads_only_what_they_need():
    light = "import murmura.network, murmura.families, murmura.signals, murmura.laws"
    assert not loaded_by(light) & (HEAVY - {"scipy"})


def imports(path: Path) -> set[str]:
    """First-level parts of murmura that a file imports, type checking aside."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        found |= {n.split(".")[1] for n in names if n.startswith("murmura.")}
    return found


@pytest.mark.parametrize("part", BELOW)
def test_imports_go_one_way(part):
    for path in (SOURCE / part).rglob("*.py"):
        assert not imports(path) & BELOW[part], f"{path.relative_to(SOURCE)} looks upwards"


def test_files_are_short_enough_to_read():
    for path in SOURCE.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 450, path.relative_to(SOURCE)
