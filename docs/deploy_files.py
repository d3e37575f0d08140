"""What of deploy/ is generated: the example of a fleet, the image's locks, and the table of alerts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.closure import closure
from tools.locks import TEST, LockedPackage, extras, read_lock

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
ALERTS = "monitoring/alerts.yml"
SITES = ("north", "east", "west")
LOCKS = {"agent": ("core", "agents", "live")}  # file -> the extras that it pins
BUILD = "hatchling"


def files() -> dict[Path, str]:
    """Give the text of every generated file of deploy/."""
    from veilsum.agents.fleet import Fleet

    example = Fleet("example", SITES, unit="kWh").files()
    return {DEPLOY / "example" / path: text for path, text in example.items()} | locks()


def locks() -> dict[Path, str]:
    """The parts of the test lock that the image installs, and what builds the wheel, with hashes."""
    from packaging.requirements import Requirement

    pinned, declared = read_lock(TEST), extras()
    roots = {name: [r for e in found for r in declared[e]] for name, found in LOCKS.items()}
    made = {}
    for name, wanted in (roots | {"build": [Requirement(BUILD)]}).items():
        names = closure(wanted, everywhere=True)
        chosen = [package for package in pinned if package.name in names]
        made[DEPLOY / "container" / f"{name}.lock"] = "".join(map(_pinned, chosen))
    return made


def _pinned(package: LockedPackage) -> str:
    hashes = "".join(f" \\\n    --hash=sha256:{digest}" for digest in package.hashes)
    return f"{package.constraint}{hashes}\n"


def rules() -> list[dict[str, Any]]:
    """Every alert, as Prometheus reads it."""
    import yaml

    from veilsum.agents.fleet import Fleet

    read = yaml.safe_load(Fleet("example", SITES).files()[ALERTS])
    return [rule for group in read["groups"] for rule in group["rules"]]


def alerts() -> str:
    """Every alert: what it means, what to do, when and for how long."""
    from docs.generate import table

    rows = [
        [
            f"`{rule['alert']}`",
            rule["labels"]["severity"],
            _words(rule["annotations"]["summary"]),
            _words(rule["annotations"]["action"]),
            f"`{' '.join(rule['expr'].split())}`"
            + (f" for {rule['for']}" if "for" in rule else ""),
        ]
        for rule in rules()
    ]
    return table(["alert", "severity", "what it means", "what to do", "when"], rows)


def _words(text: str) -> str:
    """An annotation with its labels as words."""
    for label in ("agent", "peer", "network", "fleet"):
        text = text.replace(f"{{{{ $labels.{label} }}}}", label.upper())
    return text


PARTS = (alerts,)
