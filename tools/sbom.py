"""The software bill of materials of a release, CycloneDX 1.6 in JSON, from the lock.

    python tools/sbom.py [FILE]

It lists what the wheel may bring with all its extras, at the versions that the tests ran with: every
file's hash as in requirements-test.lock, licences and dependencies from the metadata of the installed
packages. Packages of the core are `required`, those of extras `optional`, with the extras that bring
them; what only tests and docs use is left out. The same lock gives the same file, but for the time.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from uuid import UUID

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import (
    ExternalReference,
    ExternalReferenceType,
    HashAlgorithm,
    HashType,
    Property,
    XsUri,
)
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import License, LicenseAcknowledgement
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.utils import canonicalize_name

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this folder is not installed

from tools.closure import closure
from tools.locks import TEST, LockedPackage, extras, read_lock

LICENCE_FIELDS = ("License-Expression", "License", "Classifier")


def bill(lock: Path = TEST) -> Bom:
    """Make the bill of materials of veilsum with all its extras."""
    import veilsum

    wanted = {name: each for name, each in extras().items() if name != "all"}
    brought = {name: closure(each, everywhere=True) for name, each in wanted.items()}
    direct = [requirement for each in wanted.values() for requirement in each]
    edges = closure(direct, everywhere=True)
    root = Component(
        name="veilsum",
        version=veilsum.__version__,
        type=ComponentType.LIBRARY,
        bom_ref=f"pkg:pypi/veilsum@{veilsum.__version__}",
        purl=PackageURL("pypi", None, "veilsum", veilsum.__version__),
        licenses=[LicenseFactory().make_from_string("MIT")],
    )
    found = Bom(
        serial_number=UUID(bytes=hashlib.sha256(lock.read_bytes()).digest()[:16], version=4)
    )
    found.metadata.component = root
    found.metadata.timestamp = _time()
    components: dict[str, list[Component]] = {}
    for package in read_lock(lock):
        if package.name in edges:
            ways = [name for name, each in brought.items() if package.name in each]
            made = component(package, ways)
            components.setdefault(package.name, []).append(made)
            found.components.add(made)
    missing = sorted(closure(direct).keys() - components.keys())
    if missing:
        raise SystemExit(f"not in {lock.name}: {', '.join(missing)}; run `make lock`")
    found.register_dependency(root, _all(components, {canonicalize_name(r.name) for r in direct}))
    for name, several in components.items():
        for one in several:
            found.register_dependency(one, _all(components, edges[name]))
    return found


def component(package: LockedPackage, ways: list[str]) -> Component:
    """Describe one locked package: its address as a package, hashes, licence, and what brings it."""
    purl = PackageURL("pypi", None, package.name, package.version)
    scope = ComponentScope.REQUIRED if "core" in ways else ComponentScope.OPTIONAL
    properties = [Property(name="veilsum:extra", value=way) for way in ways]
    if package.marker:
        properties.append(Property(name="veilsum:marker", value=package.marker))
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=each) for each in package.hashes]
    files = ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION, url=XsUri(str(purl)), hashes=hashes
    )
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.LIBRARY,
        bom_ref=str(purl),
        purl=purl,
        scope=scope,
        licenses=licence(package),
        external_references=[files],
        properties=properties,
    )


def licence(package: LockedPackage) -> list[License]:
    """Give the licence that an installed package declares; none where it is not installed."""
    try:
        declared = metadata(package.name)
    except PackageNotFoundError:
        return []
    fields = {name: declared.get_all(name) or [] for name in LICENCE_FIELDS}
    classified = [
        value.rpartition(" :: ")[2]
        for value in fields["Classifier"]
        if value.startswith("License :: ") and value.count(" :: ") > 1
    ]
    named = [value for value in fields["License"] if value.strip() and "\n" not in value]
    texts = [*fields["License-Expression"], *named, " OR ".join(classified)]
    return [
        LicenseFactory().make_from_string(
            text, license_acknowledgement=LicenseAcknowledgement.DECLARED
        )
        for text in filter(None, texts[:1])
    ]


def _all(components: dict[str, list[Component]], names: Iterable[str]) -> list[Component]:
    return [one for name in sorted(names) for one in components.get(name, ())]


def _time() -> datetime:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    return datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)


def written(found: Bom) -> str:
    """Give the bill as JSON, checked against the schema of CycloneDX."""
    text = JsonV1Dot6(found).output_as_string(indent=1)
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if error is not None:
        raise SystemExit(f"the bill of materials does not fit CycloneDX 1.6: {error}")
    return text + "\n"


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description="Write the software bill of materials.")
    parser.add_argument("file", nargs="?", type=Path, default=Path("veilsum.cdx.json"))
    file = parser.parse_args().file
    file.write_text(written(bill()), encoding="utf-8")
    print(file)


if __name__ == "__main__":
    main()
