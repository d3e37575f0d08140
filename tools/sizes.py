"""Measure what each extra installs, and look up for which systems wheels exist: docs/install.json.

    python tools/sizes.py [EXTRA ...] [--no-wheels]

Every extra is measured in an environment that has the wheel and what it brings, and nothing else, not even
pip; the versions are those of the lock. Sizes are those of all files, compiled bytecode included. Import
times are processor seconds of a new interpreter, the least of several, less those of an interpreter that
imports nothing. Only the wheels of other systems need a network.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from compileall import compile_dir
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this folder is not installed

from tools.environments import CleanEnvironment, build, clean_variables
from tools.locks import ROOT, TEST, extras, read_lock, versions
from tools.wheels import PYTHONS, SYSTEMS, survey

FILE = ROOT / "docs" / "install.json"
REPEATS = 7
IMPORTS = {  # what one imports first with an extra
    "core": "import veilsum.networks, veilsum.families, veilsum.privacy",
    "sim": "from veilsum import estimate; import veilsum.simulation",
    "plot": "from veilsum import estimate; import veilsum.front.plot, matplotlib.pyplot",
    "parquet": "from veilsum import estimate; import pyarrow.parquet",
    "tables": "import veilsum.asking, duckdb, pyarrow, openpyxl",
    "agents": "import veilsum.agents.runtime, veilsum.agents.config, zenoh",
    "fleet": "import veilsum.fleet.post, veilsum.fleet.store.remote, obstore.store",
    "live": "import veilsum.live.server",
    "mqtt": "from veilsum.agents.readings import MqttReadings; import paho.mqtt.client",
    "sql": "from veilsum.agents.readings import SqlReadings; import sqlalchemy, psycopg",
    "mpi": "import veilsum.simulation.mpi; from mpi4py import MPI",
    "solvers": "import veilsum.networks, cvxpy",
    "accounting": "import veilsum.privacy.accounting; import dp_accounting.pld.privacy_loss_distribution",
    "all": "from veilsum import estimate; import veilsum.agents.runtime",
}


def measure(extra: str, wheel: Path, scratch: Path) -> dict[str, Any]:
    """Measure one extra in an environment of its own."""
    environment = CleanEnvironment(scratch / extra)
    empty = bytes_in(environment.folder)
    environment.link(wheel, extra)
    compile_dir(environment.packages / "veilsum", quiet=1)
    size = bytes_in(environment.folder) - empty  # programs and libraries beside packages included
    idle = processor_seconds(environment.interpreter, "pass")
    used = processor_seconds(environment.interpreter, IMPORTS[extra]) - idle
    print(f"{extra}: {size / 1e6:.0f} MB, import {used:.2f} s", flush=True)
    return {
        "megabytes": round(size / 1e6),
        "import_seconds": round(used, 2),
        "imports": IMPORTS[extra],
        "packages": {name: version(name) for name in sorted(environment.installed())},
    }


def bytes_in(folder: Path) -> int:
    """Add up the sizes of all files below a folder, those that links lead to included."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def processor_seconds(interpreter: Path, code: str, repeats: int = REPEATS) -> float:
    """Give the least user and system time of several runs, the first to warm up the caches."""
    found = []
    for _ in range(repeats + 1):
        with subprocess.Popen(
            [str(interpreter), "-c", code],
            env=clean_variables(), cwd=interpreter.parent, stderr=subprocess.PIPE, text=True,
        ) as started:  # fmt: skip
            assert started.stderr is not None
            said = started.stderr.read()
            _, status, usage = os.wait4(started.pid, 0)
            started.returncode = os.waitstatus_to_exitcode(status)
        if status:
            raise SystemExit(f"this failed in {interpreter}: {code}\n{said}")
        found.append(usage.ru_utime + usage.ru_stime)
    return min(found[1:])


def main() -> None:
    """Measure, look up, and write the file; extras that are not named keep what they have."""
    parser = argparse.ArgumentParser(description="Measure what each extra installs.")
    parser.add_argument("extras", nargs="*", help="all of them if none is named")
    parser.add_argument("--no-wheels", action="store_true", help="do not look up wheels")
    options = parser.parse_args()
    before = json.loads(FILE.read_text()) if FILE.exists() else {"extras": {}, "wheels": {}}
    names = options.extras or list(extras())
    unknown = sorted(set(names) - extras().keys())
    if unknown:
        raise SystemExit(f"no such extra: {', '.join(unknown)}; expected {', '.join(extras())}")
    measured = dict(before["extras"])
    with TemporaryDirectory(prefix="veilsum-sizes-") as folder:
        (wheel,) = build(Path(folder, "dist"), "wheel")
        for extra in names:
            measured[extra] = measure(extra, wheel, Path(folder))
    locked = read_lock(TEST)
    needed = {name for each in measured.values() for name in each["packages"]}
    chosen = [package for package in locked if package.name in needed]
    report = {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "systems": [system.name for system in SYSTEMS],
        "pythons": list(PYTHONS),
        "extras": {name: measured[name] for name in extras() if name in measured},
        "versions": dict(sorted(versions(chosen).items())),
        "wheels": before["wheels"] if options.no_wheels else survey(chosen),
    }
    FILE.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
