"""Who is at the other end of a link, by our own handshake: proofs of certificates, and sealed messages.

zenoh's TLS admits by the common name, to the second, and tells nobody which certificate was shown. So two
devices A and B that share a link prove their certificates to each other over it, in a signed
Diffie-Hellman exchange (ISO/IEC 9798-3, as analysed by Canetti and Krawczyk):

    proof(A -> B) = certificate A, session A, x_A, x_B or nothing, whether A asks for one of B,
                    signature of A's private key over (domain, network, A, B, all of the above)

where x_A is A's ephemeral X25519 key of this session, and x_B the one that it answers. B accepts the proof
if it answers B's own x_B, which makes it fresh, its signature fits its certificate, and `Trust` accepts
that certificate for the name A now. Both then derive a key for each direction,

    k(A -> B) = HKDF-SHA256(DH(x_A, x_B), domain, network, A, B, x_A, x_B, "A to B"),

and seal every message with ChaCha20-Poly1305, bound to the key expression under which it is published. A
counter of the sender is the nonce; it never restarts while x_A is in use.

From then on B takes from A only what is sealed, and only until A's certificate ends or is denied: that is
compared for every message. Whoever holds an older certificate of A (expired, or denied) can make a TLS
link in A's name, but has no proof: nothing that it sends is taken, and of what is sent to A it sees
ciphertext.

Members of a version without proofs have no mark on their token of liveliness, and are heard as before, by
their TLS alone; unless they have proved themselves before, or some of their certificates are denied. One that
its operator has rolled back is heard again once a person here says so (`Channels.forget_proof`), and until
it proves itself the next time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from veilsum.agents.pki import Credentials, Trust
from veilsum.errors import AgentError

DOMAIN = b"veilsum device proof 1\n"
MARK = "~1"  # after the session in a token of liveliness: this session proves its certificate
MOST_PROOF = 8192  # bytes
PUBLIC, KEY, KEY_ID, COUNTER, TAG = 32, 32, 8, 8, 16  # bytes
ATTACHMENT = KEY_ID + COUNTER


class ProofError(AgentError):
    """A proof or a sealed message that is not accepted; the text says why."""


class DeviceProof(NamedTuple):
    """A device's certificate, and that it has the private key now.

    Attributes
    ----------
    certificate : bytes
        As DER.
    session : bytes
        Which session of the device speaks, as its links name it.
    ephemeral, answers : bytes
        The sender's X25519 key, and the receiver's that it answers; empty if it knows none.
    asks : bytes
        Not empty if the sender has yet to receive such a proof.
    signature : bytes
        Of the certificate's key over everything else, and both names.
    """

    certificate: bytes
    session: bytes
    ephemeral: bytes
    answers: bytes
    asks: bytes
    signature: bytes

    def signed(self, network: str, source: str, target: str) -> bytes:
        """What the signature covers."""
        names = (network.encode(), source.encode(), target.encode())
        return DOMAIN + _joined((*names, *self[:-1]))

    def encode(self) -> bytes:
        """As it is sent."""
        return DOMAIN + _joined(self)

    @classmethod
    def decode(cls, data: bytes) -> DeviceProof:
        """From what was sent; raises `ProofError` for anything else."""
        parts, rest = [], data.removeprefix(DOMAIN)
        if len(data) <= MOST_PROOF and rest != data:
            while rest:
                size = int.from_bytes(rest[:4], "big")
                parts.append(rest[4 : 4 + size])
                rest = rest[4 + size :]
        if len(parts) != len(cls._fields) or DOMAIN + _joined(parts) != data:
            raise ProofError("it sent a proof of its certificate that is none")
        return cls(*parts)

    @classmethod
    def session_in(cls, data: bytes) -> str | None:
        """The session that a proof is of, unverified; None if it is none."""
        try:
            return cls.decode(data).session.decode("utf-8", "replace")
        except ProofError:
            return None


def _joined(parts: Any) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


class Channel(NamedTuple):
    """What two devices have agreed on.

    Attributes
    ----------
    ephemeral : bytes
        The peer's.
    session : str
        The peer's.
    certificate : Certificate
        The peer's, by which it is held to its end.
    expires : float
        When it ends, in seconds of the epoch.
    sending, receiving : ChaCha20Poly1305
        One for each direction.
    sending_id, receiving_id : bytes
        By which a message says under which key it is sealed.
    """

    ephemeral: bytes
    session: str
    certificate: x509.Certificate
    expires: float
    sending: ChaCha20Poly1305
    receiving: ChaCha20Poly1305
    sending_id: bytes
    receiving_id: bytes


class ProofOutcome(NamedTuple):
    """What follows from a proof: whether to answer it, and whether it opened another channel."""

    answer: bool
    opened: bool


class Channels:
    """The channels of one session of a device.

    Parameters
    ----------
    network, device : str
        Of the session.
    session : str
        Its identifier, as links name it.
    credentials : Credentials
        The device's certificate and key.
    trust : Trust
        Decides on the certificates of others.
    proved : dict of str to int, optional
        Devices that have proved themselves to this session or an earlier one, with the end of the
        certificate in seconds of the epoch; shared, and added to.
    """

    def __init__(
        self,
        network: str,
        device: str,
        session: str,
        credentials: Credentials,
        trust: Trust,
        proved: dict[str, int] | None = None,
    ) -> None:
        """With a new ephemeral key, and no channel yet."""
        self.network, self.device, self.trust = network, device, trust
        self.proved = {} if proved is None else proved
        self._session = session.encode()
        pem = credentials.certificate.read_bytes()
        self._certificate = x509.load_pem_x509_certificate(pem).public_bytes(
            serialization.Encoding.DER
        )
        self._private: Any = serialization.load_pem_private_key(
            credentials.key.read_bytes(), password=None
        )
        self._ephemeral = X25519PrivateKey.generate()
        self._public = self._ephemeral.public_key().public_bytes_raw()
        self._counter: Iterator[int] = itertools.count()
        self._heard: dict[str, bytes] = {}  # the ephemeral key that each device last sent
        self._answered: dict[str, bytes] = {}  # and which of them was answered
        self._channels: dict[str, Channel] = {}

    def introduce(self, device: str) -> bytes:
        """A proof for a device: of this device, and fresh if the other has spoken."""
        answers = self._heard.get(device, b"")
        asks = b"" if self.channel(device) else b"?"
        made = DeviceProof(self._certificate, self._session, self._public, answers, asks, b"")
        signed = made.signed(self.network, self.device, device)
        self._answered[device] = answers
        return made._replace(
            signature=self._private.sign(signed, ec.ECDSA(hashes.SHA256()))
        ).encode()

    def receive(self, device: str, data: bytes) -> ProofOutcome:
        """Take the proof of a device; raises `ProofError` with the reason."""
        proof = DeviceProof.decode(data)
        certificate = self._checked(device, proof)
        self._heard[device] = proof.ephemeral
        opened, known = False, self._channels.get(device)
        if proof.answers == self._public:
            opened = known is None or known.ephemeral != proof.ephemeral
            if opened or (known is not None and known.certificate != certificate):
                self._channels[device] = self._agree(device, proof, certificate)
            self.proved[device] = int(certificate.not_valid_after_utc.timestamp())
        answered = self._answered.get(device) == proof.ephemeral
        settled = answered and proof.answers == self._public and not proof.asks
        return ProofOutcome(not settled, opened)

    def _checked(self, device: str, proof: DeviceProof) -> x509.Certificate:
        """The certificate of a proof that its owner has signed, and that is accepted."""
        try:
            found = x509.load_der_x509_certificate(proof.certificate)
            key = found.public_key()
            if not isinstance(key, ec.EllipticCurvePublicKey) or len(proof.ephemeral) != PUBLIC:
                raise ValueError
            signed = proof.signed(self.network, device, self.device)
            key.verify(proof.signature, signed, ec.ECDSA(hashes.SHA256()))
        except (InvalidSignature, ValueError, UnsupportedAlgorithm):
            raise ProofError(
                "it does not prove that it has the key of the certificate it shows"
            ) from None
        reason = self.trust.refusal(found, device)
        if reason:
            raise ProofError(reason)
        return found

    def _agree(self, device: str, proof: DeviceProof, found: x509.Certificate) -> Channel:
        try:
            shared = self._ephemeral.exchange(X25519PublicKey.from_public_bytes(proof.ephemeral))
        except ValueError:
            raise ProofError("its ephemeral key is none") from None
        ends = sorted([(self.device.encode(), self._public), (device.encode(), proof.ephemeral)])
        context = [DOMAIN, self.network.encode(), *itertools.chain(*ends)]
        pair = [(self.device, device), (device, self.device)]
        made = [_derive(shared, _joined([*context, a.encode(), b.encode()])) for a, b in pair]
        (sending, sending_id), (receiving, receiving_id) = made
        return Channel(
            proof.ephemeral, proof.session.decode("utf-8", "replace"), found,
            found.not_valid_after_utc.timestamp(), sending, receiving, sending_id, receiving_id,
        )  # fmt: skip

    def forget(self, device: str) -> None:
        """Close the channel with a device that is gone; it proves itself again when it is back."""
        self._channels.pop(device, None)

    def channel(self, device: str) -> Channel | None:
        """The channel with a device, if its certificate has not ended."""
        found = self._channels.get(device)
        return None if found is None or self.trust.wall() >= found.expires else found

    def must_prove(self, device: str) -> str:
        """Why nothing is taken from a device, or sent to it, without a channel; empty if it is."""
        denied = self.trust.denied_name(device)
        if denied:
            return denied
        if self.trust.must_prove(device):
            return (
                "it does not prove which certificate it has, and the deny list has some of its; an "
                "earlier version has no proofs: upgrade it"
            )
        if device in self.proved or device in self._heard or device in self._channels:
            return (
                "it does not prove its certificate and did so before: an earlier version runs there, or "
                "somebody else has an old certificate of it; if its operator has rolled it back, run "
                f"`veilsum keys unproved {device}` on this site, and it is heard without proofs again"
            )
        return ""

    def forget_proof(self, device: str) -> bool:
        """Forget that a device has proved itself, until it does again; whether it had.

        A channel that is open stays, and while it does nothing is taken without a seal. What the
        deny list asks for stays too.
        """
        had = device in self.proved or device in self._heard
        self.proved.pop(device, None)
        self._heard.pop(device, None)
        return had

    def seal(self, device: str, key: str, data: bytes) -> tuple[bytes, bytes] | None:
        """A message for a device under a key expression, with its attachment; None without a channel."""
        found = self.channel(device)
        if found is None:
            return None
        number = next(self._counter).to_bytes(COUNTER, "big")
        sealed = found.sending.encrypt(bytes(4) + number, data, key.encode())
        return sealed, found.sending_id + number

    def open(self, device: str, key: str, data: bytes, attachment: bytes) -> bytes:
        """What a device sealed; raises `ProofError` with the reason."""
        found = self.channel(device)
        if found is None:
            raise ProofError("it sent something sealed, and has not proved its certificate")
        if len(attachment) != ATTACHMENT or attachment[:KEY_ID] != found.receiving_id:
            raise ProofError("it sent something that is sealed with another key")
        try:
            return found.receiving.decrypt(bytes(4) + attachment[KEY_ID:], data, key.encode())
        except InvalidTag:
            raise ProofError("it sent something whose seal is broken") from None

    def review(self) -> list[tuple[str, str, str]]:
        """Close the channels of certificates that have ended or are denied: device, session, reason."""
        closed = []
        for device, found in list(self._channels.items()):
            reason = self.trust.refusal(found.certificate, device)
            if reason:
                del self._channels[device]
                closed.append((device, found.session, reason))
        return closed

    def next_end(self) -> float:
        """When the first of the certificates ends, in seconds of the epoch; infinite without any."""
        return min((found.expires for found in list(self._channels.values())), default=float("inf"))


def _derive(shared: bytes, context: bytes) -> tuple[ChaCha20Poly1305, bytes]:
    """The key of one direction, and by what it is known."""
    made = HKDF(hashes.SHA256(), KEY + KEY_ID, salt=None, info=context).derive(shared)
    return ChaCha20Poly1305(made[:KEY]), made[KEY:]
