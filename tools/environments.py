"""Clean environments: the built wheel with what one extra brings, and nothing else.

They are filled in two ways. `link` downloads nothing: it follows what the wheel's metadata require to the
end, as pip would, and links the files of those distributions from the environment that runs this, which
has the versions of requirements-test.lock. `install` lets pip do it, from the package index.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.closure import closure
from tools.locks import ROOT, TEST, read_lock


def build(folder: Path, *targets: str) -> list[Path]:
    """Build the distributions (`wheel`, `sdist`; both if none is named) into a folder."""
    chosen = [option for target in targets for option in ("--target", target)]
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder), *chosen]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=clean_variables())
    return sorted(folder.iterdir())


def clean_variables() -> dict[str, str]:
    """Give this process's variables without those that change what Python imports."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "COVERAGE_PROCESS_START", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if name not in hidden}


def read_metadata(wheel: Path) -> bytes:
    """Read the metadata of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        return archive.read(name)


def brought(wheel: Path, extra: str) -> set[str]:
    """Give the names of the distributions that a wheel brings on this machine with an extra."""
    declared = Metadata.from_email(read_metadata(wheel)).requires_dist or []
    asked = "" if extra == "core" else extra
    chosen = [r for r in declared if r.marker is None or r.marker.evaluate({"extra": asked})]
    return set(closure(Requirement(str(r).partition(";")[0]) for r in chosen))


class CleanEnvironment:
    """An environment in a folder, without any package, not even pip, until it is filled."""

    def __init__(self, folder: Path) -> None:
        """Make the environment; what the folder held is removed."""
        venv.create(folder, with_pip=False, symlinks=os.name != "nt", clear=True)
        self.folder = folder
        self.interpreter = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        self.packages = Path(self._checked([str(self.interpreter), "-I", "-c", code]).strip())

    def link(self, wheel: Path, extra: str) -> None:
        """Install the wheel, beside links to what it brings with an extra (`core`: none)."""
        for name in brought(wheel, extra):
            _link(distribution(name), self.packages)
        self._pip("--no-compile", "--no-deps", "--no-index", str(wheel))

    def install(self, wheel: Path, extra: str) -> None:
        """Install the wheel with an extra by pip, at the versions of the test lock."""
        constraints = self.folder / "constraints.txt"
        constraints.write_text("\n".join(package.constraint for package in read_lock(TEST)) + "\n")
        wanted = str(wheel) if extra == "core" else f"{wheel}[{extra}]"
        self._pip("--only-binary", ":all:", "--constraint", str(constraints), wanted)

    def run(self, *command: str, cwd: Path, code: int = 0) -> str:
        """Run a program of the environment, warnings being errors; give what it writes."""
        program = self.interpreter.parent / command[0]
        path = f"{self.interpreter.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        more = {"PATH": path, "PYTHONWARNINGS": "error", "MPLBACKEND": "agg"}
        done = subprocess.run(
            [str(program), *command[1:]],
            cwd=cwd, capture_output=True, text=True, timeout=300, env={**clean_variables(), **more},
        )  # fmt: skip
        said = done.stdout + done.stderr
        if done.returncode != code:
            raise RuntimeError(f"{command} ended with {done.returncode}, expected {code}:\n{said}")
        return said

    def installed(self) -> set[str]:
        """Give the distributions that the environment's Python finds, veilsum left out."""
        code = "from importlib.metadata import distributions as d; print(*(x.name for x in d()))"
        names = self._checked([str(self.interpreter), "-I", "-c", code]).split()
        return {str(canonicalize_name(name)) for name in names} - {"veilsum"}

    def _pip(self, *arguments: str) -> None:
        pip = [sys.executable, "-m", "pip", "--python", str(self.interpreter)]
        self._checked([*pip, "install", "--quiet", *arguments])

    def _checked(self, command: list[str]) -> str:
        done = subprocess.run(command, capture_output=True, text=True, env=clean_variables())
        if done.returncode:
            raise RuntimeError(f"{command} failed:\n{done.stderr}")
        return done.stdout


def _link(found: Distribution, there: Path) -> None:
    """Link every file of a distribution, scripts and headers beside the packages included."""
    here = str(found.locate_file(""))  # not always this environment: a .pth may lead elsewhere
    made: set[str] = set()
    for file in found.files or []:
        source = os.path.normpath(os.path.join(here, file))
        target = os.path.normpath(there / file)
        folder = os.path.dirname(target)
        if folder not in made:
            os.makedirs(folder, exist_ok=True)
            made.add(folder)
        if os.path.lexists(source):
            os.symlink(source, target)
