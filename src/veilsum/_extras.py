"""Packages of optional extras: imported when first needed, and named if they are missing.

`sim` simulates, plans and audits, `plot` draws; agents need neither, and who simulates needs nothing of
agents. A package that is absent becomes one error with the command that installs it.
"""

from __future__ import annotations

import json
import shlex
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from veilsum.errors import MissingExtraError

EXTRAS = {  # package -> the extra that installs it
    "scipy": "sim",
    "numba": "sim",
    "pandas": "sim",
    "matplotlib": "plot",
    "pyarrow": "parquet",
    "duckdb": "tables",
    "openpyxl": "tables",
    "cryptography": "agents",
    "prometheus_client": "agents",
    "zenoh": "agents",
    "obstore": "fleet",
    "starlette": "live",
    "uvicorn": "live",
    "paho": "mqtt",
    "psycopg": "sql",
    "sqlalchemy": "sql",
    "mpi4py": "mpi",
    "cvxpy": "solvers",
    "dp_accounting": "accounting",
}


def load(module: str) -> Any:
    """A module of an optional package, or of veilsum where that needs one.

    Raises
    ------
    MissingExtraError
        If the package of an extra is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise explained(error, module) from error


def explained(error: BaseException, purpose: str = "this") -> BaseException:
    """The error that names the extra, if a package of one is missing; else the error itself."""
    if isinstance(error, MissingExtraError) or not isinstance(error, ModuleNotFoundError):
        return error
    package = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(package)
    if extra is None:
        return error
    return MissingExtraError(
        f"{_subject(purpose)} {package}, which is not installed: {install_command(extra)}"
    )


def install_command(*extras: str) -> str:
    """The command that adds extras to this installation.

    It names the checkout or wheel that veilsum was installed from, where that still exists: pip would
    look for the bare name on the package index. An installation that came from an index has no such
    record, and there the name is right.
    """
    flag, source = _origin()
    wanted = ",".join(extras)
    return f"pip install {flag}{shlex.quote(f'{source}[{wanted}]')}"


def _origin() -> tuple[str, str]:
    """What pip is given to install this copy again: a flag, and a path or the bare name."""
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlparse
    from urllib.request import url2pathname

    checkout = Path(__file__).resolve().parents[2]
    try:
        recorded = json.loads(distribution("veilsum").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:  # the source is on the path, and was never installed
        recorded = {"url": checkout.as_uri()} if (checkout / "pyproject.toml").is_file() else {}
    url = urlparse(recorded.get("url", ""))
    path = Path(url2pathname(url.path))
    if url.scheme != "file" or not path.exists():
        return "", "veilsum"
    return "--editable " if recorded.get("dir_info", {}).get("editable") else "", str(path)


def _subject(purpose: str) -> str:
    """What needs a package: what was asked for, unless that is the package itself."""
    return f"{purpose} needs" if purpose.partition(".")[0] not in EXTRAS else "this needs"


def require(purpose: str, *extras: str, otherwise: str = "") -> None:
    """Raise before anything starts unless all packages of these extras can be imported.

    Parameters
    ----------
    purpose : str
        What needs them.
    *extras : str
        Names of extras, such as "sim" and "plot".
    otherwise : str
        What to do without them.

    Raises
    ------
    MissingExtraError
        With the packages that are missing, and the extras that install them.
    """
    missing = [package for package, extra in EXTRAS.items() if extra in extras]
    missing = [package for package in missing if not available(package)]
    if missing:
        wanted = ",".join(dict.fromkeys(EXTRAS[package] for package in missing))
        raise MissingExtraError(
            f"{purpose} needs {', '.join(missing)}, which {'are' if missing[1:] else 'is'} not "
            f"installed: {install_command(wanted)}{otherwise and f', or {otherwise}'}"
        )


def available(package: str) -> bool:
    """Whether a package can be imported; nothing is loaded."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # blocked, or without a spec
        return False
