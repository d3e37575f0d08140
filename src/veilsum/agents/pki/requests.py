"""Requests of a site: both of its public keys, with proof that it has the private halves.

On the site, `make_request` makes a TLS key and a signing key, which never leave it, and writes a
request with the public halves. The authority checks it, issues the certificate and adds the signing
key to the list that scenarios pin (`Authority.sign`). Back on the site, `install` checks what came.

    signed = domain, {role, name, label, TLS key, signing key}; proofs = both private keys over `signed`

Each proof covers both keys, so that nobody can join another's TLS key to a signing key of their own.
An observer has no signing key and no label: its request has one key and one proof.
Proofs say that the keys belong together, and not whose they are: before the authority signs, compare
the fingerprint that both commands print over another channel.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from veilsum.agents.pki.certificates import Credentials, check_credentials, load_pair, pem_of
from veilsum.agents.pki.denied import FILE as DENIED
from veilsum.agents.pki.denied import DenyList
from veilsum.agents.pki.files import (
    check_free,
    check_name,
    check_observer_name,
    check_private,
    store,
)
from veilsum.agents.pki.secret import keep_secret, new_secret, secret_file
from veilsum.agents.pki.signing import FILE, SUFFIX, SigningKey, read_keys
from veilsum.agents.roles import Role
from veilsum.errors import AgentError

DOMAIN = b"veilsum key request 2\n"
REQUEST = ".request"
NEXT = ".next"  # after NAME.key: a key that waits for its certificate
MOST_BYTES = 16_384


class KeyRequest(NamedTuple):
    """The public keys of a site, and the proofs; made by `make_request` or `read`.

    Attributes
    ----------
    name : str
        The name to be on the certificate.
    label : str
        The member whose signing key it is.
    certificate_key : bytes
        Public TLS key, EC P-256, as DER.
    signing_key : str
        Public Ed25519 key in hexadecimal.
    certificate_proof, signing_proof : bytes
        Signatures of both keys over everything else.
    role : Role
        Of an observer's, `label`, `signing_key` and `signing_proof` are empty.
    """

    name: str
    label: str
    certificate_key: bytes
    signing_key: str
    certificate_proof: bytes
    signing_proof: bytes
    role: Role = Role.MEMBER

    @property
    def signed(self) -> bytes:
        """What both proofs cover."""
        content = [self.role, self.name, self.label, self.certificate_key.hex(), self.signing_key]
        return DOMAIN + json.dumps(content, separators=(",", ":")).encode()

    @property
    def fingerprint(self) -> str:
        """128 bits of sha256 of `signed`, for two people to compare."""
        digits = hashlib.sha256(self.signed).hexdigest()[:32]
        return " ".join(digits[k : k + 4] for k in range(0, 32, 4))

    @property
    def public_key(self) -> Any:
        """The TLS key as an object."""
        return serialization.load_der_public_key(self.certificate_key)

    def to_json(self) -> str:
        """The file of a request: public text."""
        values = {
            name: value.hex() if isinstance(value, bytes) else value
            for name, value in self._asdict().items()
        }
        return json.dumps(values, indent=1) + "\n"

    @classmethod
    def read(cls, path: str | Path) -> KeyRequest:
        """Read a request, and check both proofs.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        KeyRequest
            Whose sender has both private keys.

        Raises
        ------
        AgentError
            If it cannot be read, is no request, or was changed.
        """
        file = Path(path)
        try:
            with file.open("rb") as opened:
                data = opened.read(MOST_BYTES + 1)
            found = cls._parsed(data)
        except OSError as problem:
            raise AgentError(f"the request {file} cannot be read: {problem.strerror}") from None
        except (ValueError, RecursionError):  # nested too deeply
            raise AgentError(
                f"{file} is no request of a site; `veilsum keys request NAME` on the site makes one"
            ) from None
        if found.role is Role.OBSERVER:
            check_observer_name(found.name)
        else:
            check_name(found.name)
            check_name(found.label)
        try:
            found._check_proofs()
        except (InvalidSignature, ValueError, TypeError, UnsupportedAlgorithm):
            raise AgentError(
                f"{file} was changed, or its sender lacks a private key: the proofs do not fit; "
                f"nothing was signed; ask {found.name} for the request once more"
            ) from None
        return found

    @classmethod
    def _parsed(cls, data: bytes) -> KeyRequest:
        """ValueError for anything but a whole request."""
        values = json.loads(data) if len(data) <= MOST_BYTES else None
        if not isinstance(values, dict) or set(values) != set(cls._fields):
            raise ValueError
        if not all(isinstance(value, str) for value in values.values()):
            raise ValueError
        if bytes.fromhex(values["signing_key"]).hex() != values["signing_key"]:
            raise ValueError  # one way of writing it: lists compare the text
        for name in ("certificate_key", "certificate_proof", "signing_proof"):
            values[name] = bytes.fromhex(values[name])
        values["role"] = Role(values["role"])
        unsigned = {values["label"], values["signing_key"], values["signing_proof"].hex()}
        if values["role"] is Role.OBSERVER and unsigned != {""}:
            raise ValueError
        return cls(**values)

    def _check_proofs(self) -> None:
        public = self.public_key
        if not isinstance(public, ec.EllipticCurvePublicKey) or public.curve.name != "secp256r1":
            raise ValueError
        public.verify(self.certificate_proof, self.signed, ec.ECDSA(hashes.SHA256()))
        if self.role is Role.OBSERVER:
            return
        signing = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.signing_key))
        signing.verify(self.signing_proof, self.signed)


def make_request(
    name: str,
    directory: str | Path,
    label: str | None = None,
    *,
    new_key: bool = False,
    force: bool = False,
) -> tuple[KeyRequest, Path]:
    """Make the keys of a site that it does not have yet, and a request for them.

    With the first of them comes the site's secret, which stays when keys are replaced.

    Parameters
    ----------
    name : str
        The name to be on the certificate.
    directory : str or Path
        Where the site's keys are; made with mode 0700 if it does not exist.
    label : str, optional
        The member whose signing key it is, where it is not the name.
    new_key : bool
        Make a TLS key in place of the one there is, as after it was exposed. It waits in
        NAME.key.next until `install` brings its certificate; the agent goes on with the old one.
    force : bool
        Make new keys at once even if there are some, as for another device.

    Returns
    -------
    (KeyRequest, Path)
        The request, and its file: LABEL.request.

    Raises
    ------
    AgentError
        If a name cannot be on a certificate, or a key that is there cannot be used.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     made, path = make_request("north", folder)
    ...     KeyRequest.read(path) == made, sorted(file.name for file in Path(folder).iterdir())
    (True, ['north.key', 'north.request', 'north.secret', 'north.signing.key'])
    """
    label = name if label is None else label
    check_name(name)
    check_name(label)
    home = Path(directory)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    _prepare_secret(home / f"{name}.key", replaced=new_key or force)
    private = _tls_key(home / f"{name}.key", force, new_key)
    file = home / f"{label}{SUFFIX}"
    known = file.exists() and not force
    signing = SigningKey.load(file) if known else SigningKey.create(file, force=force)
    made = KeyRequest(name, label, _public_half(private), signing.public, b"", b"")
    made = made._replace(
        certificate_proof=private.sign(made.signed, ec.ECDSA(hashes.SHA256())),
        signing_proof=signing.private.sign(made.signed),
    )
    path = home / f"{label}{REQUEST}"
    store(path, made.to_json().encode())
    return made, path


def _prepare_secret(key: Path, replaced: bool) -> None:
    """Give a new site its secret, and keep that of one whose key is replaced."""
    if key.exists():
        if replaced:
            keep_secret(key)
    elif not secret_file(key).exists():
        new_secret(key)


def make_observer_request(
    name: str, directory: str | Path, *, new_key: bool = False, force: bool = False
) -> tuple[KeyRequest, Path]:
    """Make the key of an observer if it has none yet, and a request for it.

    Parameters
    ----------
    name : str
        The name that sites allow.
    directory : str or Path
        Where the observer's key is; made with mode 0700 if it does not exist.
    new_key : bool
        As for `make_request`.
    force : bool
        Make a new key at once even if there is one.

    Returns
    -------
    (KeyRequest, Path)
        The request, and its file: NAME.request.

    Raises
    ------
    AgentError
        If the name cannot be on a certificate, or a key that is there cannot be used.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     made, path = make_observer_request("control-room", folder)
    ...     KeyRequest.read(path).role.value, sorted(file.name for file in Path(folder).iterdir())
    ('observer', ['control-room.key', 'control-room.request'])
    """
    check_observer_name(name)
    home = Path(directory)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    private = _tls_key(home / f"{name}.key", force, new_key)
    made = KeyRequest(name, "", _public_half(private), "", b"", b"", Role.OBSERVER)
    proof = private.sign(made.signed, ec.ECDSA(hashes.SHA256()))
    made = made._replace(certificate_proof=proof)
    path = home / f"{name}{REQUEST}"
    store(path, made.to_json().encode())
    return made, path


def _public_half(private: ec.EllipticCurvePrivateKey) -> bytes:
    return private.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def next_key(path: Path) -> Path:
    """Where the key waits that is to replace one."""
    return path.with_name(path.name + NEXT)


def _tls_key(path: Path, force: bool, new_key: bool) -> ec.EllipticCurvePrivateKey:
    """The key of a file, or a new one; with `new_key`, one that waits for its certificate."""
    if new_key:
        if not path.exists() or force:
            raise AgentError(
                f"a new key in place of {path} needs that key, and keeps all others; leave out "
                f"{'--force' if path.exists() else '--new-key'}"
            )
        made = ec.generate_private_key(ec.SECP256R1())
        store(next_key(path), pem_of(made), secret=True)
        return made
    if not path.exists() or force:
        check_free([path], force, "the certificate must then be signed anew")
        made = ec.generate_private_key(ec.SECP256R1())
        store(path, pem_of(made), secret=True)
        return made
    check_private(path)
    try:
        found = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
        found = None
    if not isinstance(found, ec.EllipticCurvePrivateKey) or found.curve.name != "secp256r1":
        raise AgentError(
            f"{path} holds no EC P-256 key; restore it, or make another with --force, which makes a "
            "new signing key too"
        )
    return found


def install(
    name: str, source: str | Path, directory: str | Path, *, force: bool = False
) -> Credentials:
    """Put what the authority sent beside the site's keys, after checking that it belongs to them.

    Parameters
    ----------
    name : str
        The name on the certificate.
    source : str or Path
        A folder with ca.pem, NAME.pem, for a masked sum signing-keys.toml, and denied.json where
        something is denied.
    directory : str or Path
        Where the site's keys are.
    force : bool
        Accept another authority than the one that is installed.

    Returns
    -------
    Credentials
        The three files, ready to use.

    Raises
    ------
    AgentError
        If a file is missing, the certificate is not for this site's key, name and time, the list
        pins another signing key for this site, or the authority is another one.
    """
    check_name(name)
    came, home = Path(source), Path(directory)
    made = Credentials(home / "ca.pem", home / f"{name}.pem", home / f"{name}.key")
    if not made.key.is_file():
        raise AgentError(
            f"{made.key} is missing; `veilsum keys request {name}` makes it on this site"
        )
    for file in (came / "ca.pem", came / f"{name}.pem"):
        if not file.is_file():
            raise AgentError(f"{file} is missing; the authority sends ca.pem and {name}.pem")
    found = Credentials(came / "ca.pem", came / f"{name}.pem", made.key)
    waiting = next_key(made.key)
    if waiting.is_file() and _is_pair(waiting, found.certificate):
        found = found._replace(key=waiting)
    check_credentials(found, name, role=None)
    if (came / FILE).is_file():
        _check_pins(read_keys(came / FILE), home, came / FILE)
    authority = found.ca.read_bytes()
    if made.ca.exists() and made.ca.read_bytes() != authority and not force:
        raise AgentError(
            f"{found.ca} is another authority than {made.ca}; if all sites change theirs, say --force"
        )
    certificate = found.certificate.read_bytes()
    store(made.ca, authority)
    if found.key == waiting:  # both are there until the last step: a second call completes it
        store(made.key, waiting.read_bytes(), secret=True)
    store(made.certificate, certificate)
    if found.key == waiting:
        waiting.unlink()
    _install_denied(came / DENIED, home / DENIED, made.ca)
    return made


def _is_pair(key: Path, certificate: Path) -> bool:
    try:
        load_pair(key.read_bytes(), certificate.read_bytes())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return True


def _install_denied(source: Path, path: Path, ca: Path) -> None:
    """Put a deny list that came beside the keys, unless a newer one is there."""
    if not source.is_file():
        return
    came = DenyList.read(source, ca)
    there = 0
    if path.is_file():
        with suppress(AgentError):  # of another authority, which was replaced with --force
            there = DenyList.read(path, ca).number
    if came.number > there:
        came.write(path)


def _check_pins(pinned: dict[str, str], home: Path, file: Path) -> None:
    """Every signing key of this site is the one that is pinned for its label."""
    for label, own in own_signing_keys(home).items():
        if pinned.get(label, own) != own:
            raise AgentError(
                f"{file} pins another signing key for {label} than {home / label}{SUFFIX}: somebody "
                "else's request was signed under its name, or the key was replaced; ask the authority "
                "before anything runs"
            )


def own_signing_keys(directory: str | Path) -> dict[str, str]:
    """The public halves of the signing keys of a site, by label.

    Parameters
    ----------
    directory : str or Path
        Where the site's keys are.

    Returns
    -------
    dict of str to str
        In hexadecimal, in the order of the labels.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     made, _ = make_request("north", folder)
    ...     own_signing_keys(folder) == {"north": made.signing_key}
    True
    """
    files = sorted(Path(directory).glob(f"*{SUFFIX}"))
    return {path.name.removesuffix(SUFFIX): SigningKey.load(path).public for path in files}
