"""Extensions at the end of a frame, and how a Hello says which version of the wire its sender speaks."""

from __future__ import annotations

from struct import Struct

from veilsum.agents.wire.frames import WireError

EXTENSIBLE = 6  # the first version whose frames may end in extensions
OPTIONAL = 128  # extensions and kinds from here on are skipped by those who do not know them
SPEAKS = 1  # the extension of a Hello that says which version its sender speaks
_EXTENSION = Struct(">BH")
_SPEAKS_FIELD = b"mu-wire"  # and the version: the last field of a Hello of version 5


def read_end(frame: bytes, at: int, what: str, known: tuple[int, ...] = ()) -> dict[int, bytes]:
    """The known extensions of a frame whose contents end at `at`; raises if it does not end with them."""
    if len(frame) == at:
        return {}
    if len(frame) < at or frame[2] < EXTENSIBLE:
        raise WireError(f"{what} of {len(frame)} bytes, expected {at}")
    return read_extensions(frame, at, known)


def read_extensions(frame: bytes, at: int, known: tuple[int, ...] = ()) -> dict[int, bytes]:
    """The extensions from `at` to the end of a frame, of those that are known; others are checked."""
    size, found, last = len(frame), {}, 0
    while at < size:
        if at + _EXTENSION.size > size:
            raise WireError("an extension that is cut off")
        number, length = _EXTENSION.unpack_from(frame, at)
        start, at = at + _EXTENSION.size, at + _EXTENSION.size + length
        if number <= last or at > size:
            raise WireError("extensions that are cut off or out of order")
        if number in known:
            found[number] = frame[start:at]
        elif number < OPTIONAL:
            raise WireError(
                f"extension {number}, without which the message means something else, and which this "
                "version does not know"
            )
        last = number
    return found


def encode_speaks(
    version: int, fields: tuple[bytes, ...], speaks: int
) -> tuple[tuple[bytes, ...], bytes]:
    """The fields of a Hello and its extensions, which say what its sender speaks; 0 says nothing.

    In a version without extensions the last field says it, and none of a manifest's may look like it.
    """
    if type(speaks) is not int:
        raise TypeError
    if version >= EXTENSIBLE:
        return fields, _EXTENSION.pack(SPEAKS, 1) + bytes([speaks]) if speaks else b""
    if fields and fields[-1].startswith(_SPEAKS_FIELD):
        raise ValueError
    return (*fields, _SPEAKS_FIELD + bytes([speaks])) if speaks else fields, b""


def decode_speaks(
    version: int, fields: tuple[bytes, ...], extensions: dict[int, bytes]
) -> tuple[tuple[bytes, ...], int]:
    """The fields of a manifest, and which version the sender speaks; 0 if it does not say."""
    said = extensions.get(SPEAKS)
    if version < EXTENSIBLE and fields and fields[-1].startswith(_SPEAKS_FIELD):
        fields, said = fields[:-1], fields[-1][len(_SPEAKS_FIELD) :]
        if fields and fields[-1].startswith(_SPEAKS_FIELD):
            raise WireError("a Hello that says twice which version it speaks")
    if said is None:
        return fields, 0
    if len(said) != 1 or not said[0]:
        raise WireError("a Hello that speaks no version")
    return fields, said[0]
