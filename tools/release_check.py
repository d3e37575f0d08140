"""What must agree before a release is published; run by .github/workflows/release.yml.

    python tools/release_check.py vX.Y.Z https://forge.example/owner/repository

The tag names the version, `[project.urls]` names the repository that builds, the changelog has a section
for the version, and dist/ holds one wheel and one source distribution of it and nothing else.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def problems(root: Path, tag: str, address: str) -> list[str]:
    """List what does not agree, each with the remedy; empty if the release can be published."""
    source = (root / "src" / "veilsum" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', source, re.M)
    version = found[1] if found else "?"
    urls = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    wrong = []
    if tag != f"v{version}":
        wrong.append(f"the tag is {tag}, but __version__ is {version}: tag v{version}")
    for name, url in urls.items():
        if url != address and not url.startswith(f"{address}/"):
            wrong.append(f"{name} in [project.urls] is {url}: it must be below {address}")
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[?{re.escape(version)}\]?\b.*\d{{4}}-\d\d-\d\d", changelog, re.M):
        wrong.append(f"CHANGELOG.md has no section '## {version} (date)': rename 'Unreleased'")
    expected = {f"veilsum-{version}-py3-none-any.whl", f"veilsum-{version}.tar.gz"}
    built = {path.name for path in (root / "dist").glob("*")}
    if built != expected:
        wrong.append(f"dist/ holds {sorted(built)}, expected {sorted(expected)}: make clean dist")
    return wrong


def main(arguments: list[str]) -> int:
    """Print what does not agree; the exit code is 1 if there is any."""
    if len(arguments) != 2:
        print("usage: release_check.py TAG ADDRESS", file=sys.stderr)
        return 2
    wrong = problems(ROOT, *arguments)
    for line in wrong:
        print(f"release: {line}", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
