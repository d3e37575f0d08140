"""Statements of an authority: bytes that its key has signed, for one stated purpose.

    signed = "veilsum statement" | purpose | data,     ECDSA with SHA-256, the key of ca.pem

The same key signs certificates. What it signs there is DER and begins with the byte 0x30, and a
statement begins with the letter m, so neither can be taken for the other; nor can a statement of one
purpose for that of another.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from veilsum.errors import AgentError

START = b"veilsum statement\n"


def sign_statement(key: Any, purpose: str, data: bytes) -> bytes:
    """Sign data for a purpose.

    Parameters
    ----------
    key : EllipticCurvePrivateKey
        The authority's.
    purpose : str
        What kind of statement it is; without a line break.
    data : bytes
        What is stated.

    Returns
    -------
    bytes
        The signature, DER.
    """
    return bytes(key.sign(_message(purpose, data), ec.ECDSA(hashes.SHA256())))


def is_signed(ca: Path, purpose: str, data: bytes, signature: bytes) -> bool:
    """Whether the authority of a certificate has signed data for a purpose.

    Parameters
    ----------
    ca : Path
        The authority's certificate.
    purpose : str
        What kind of statement it is.
    data, signature : bytes
        What is stated, and the signature.

    Raises
    ------
    AgentError
        If the file holds no certificate of an authority.
    """
    try:
        key: Any = x509.load_pem_x509_certificate(ca.read_bytes()).public_key()
    except (OSError, ValueError, UnsupportedAlgorithm) as problem:
        raise AgentError(
            f"{ca} cannot be read as the certificate of an authority ({problem}); restore ca.pem"
        ) from None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise AgentError(
            f"{ca} has a key of another kind than `veilsum keys init` makes; statements of its "
            "authority cannot be verified"
        )
    try:
        key.verify(signature, _message(purpose, data), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def _message(purpose: str, data: bytes) -> bytes:
    assert "\n" not in purpose, "a purpose is one line"
    return START + purpose.encode() + b"\n" + data
