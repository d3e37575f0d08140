"""What a scenario pins for a masked sum: a nonce for the run, and every member's signing key.

    [agents]
    nonce = "0f3c..."                       # 32 hexadecimal digits, new for every run
    signing_keys = "signing-keys.toml"      # as `veilsum keys sign` writes it, or a table

The file has one table, [signing_keys], of labels and public keys. Both are part of the manifest, so
that sites which disagree about a key do not talk to one another.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from veilsum._toml import Issue
from veilsum.agents.pki.signing import FILE, TABLE, read_keys
from veilsum.scenario.check import resolve

if TYPE_CHECKING:
    from veilsum.agents.manifest import Manifest
    from veilsum.scenario.schema import AgentsSection

BYTES = 16  # of a nonce


class Pins(NamedTuple):
    """The nonce of a run, and the public signing key of each label; both may be missing."""

    nonce: str = ""
    signing_keys: Mapping[str, str] = {}


def pins_of(section: AgentsSection, folder: Path) -> Pins:
    """What [agents] pins.

    Parameters
    ----------
    section : AgentsSection
        The section of the scenario.
    folder : Path
        That its paths are relative to.

    Raises
    ------
    AgentError
        If the file of the keys cannot be read, or is none.
    """
    chosen = section.signing_keys
    keys = read_keys(resolve(chosen, folder)) if isinstance(chosen, str) else chosen
    return Pins(section.nonce, keys)


def check_pinned(manifest: Manifest) -> Iterator[Issue]:
    """What a masked sum lacks before it can run: the keys of [agents], with what to write."""
    if not manifest.masked:
        return
    if not manifest.nonce:
        yield Issue(
            ("agents", "nonce"),
            "missing; a masked sum has a new nonce for every run, the same on all sites: add "
            f'nonce = "{secrets.token_hex(BYTES)}" to [agents]',
        )
    if not manifest.signing_keys:
        yield Issue(
            ("agents", TABLE),
            f'missing; a masked sum pins the key of every member: add {TABLE} = "{FILE}" to '
            "[agents], the file that `veilsum keys sign` writes",
        )
