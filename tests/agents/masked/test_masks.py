"""Masks cancel over a roster and nowhere else; weak, copied and dropped keys give none."""

import pickle
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from veilsum.agents.masked import masks
from veilsum.agents.masked.masks import EphemeralKey, MaskError, Participant, centred, pad, to_words
from veilsum.errors import AgentError

MANIFEST, SID = bytes(32), bytes([1]) * 32
P = 2**255 - 19
LOW_ORDER = [  # RFC 7748, section 7, and Bernstein's list
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    P - 1,
]


def keys(*labels: str) -> dict[str, EphemeralKey]:
    return {label: EphemeralKey() for label in labels}


def public(made: dict[str, EphemeralKey]) -> dict[str, Participant]:
    return {label: Participant(key.public) for label, key in made.items()}


def pads(made: dict[str, EphemeralKey], components: int = 3, sid: bytes = SID) -> dict[str, Any]:
    roster = public(made)
    return {
        label: pad(key, label, roster, MANIFEST, sid, components) for label, key in made.items()
    }


@pytest.mark.parametrize("components", [1, 5, 1024])
def test_masks_cancel_in_the_sum_over_the_roster_and_in_no_part_of_it(components: int) -> None:
    found = pads(keys("a", "b", "c", "d"), components)
    assert not sum(found.values(), np.zeros(components, dtype=np.uint64)).any()
    for left in ("a", "bc", "abc"):
        assert sum((found[label] for label in left), np.zeros(components, dtype=np.uint64)).any()


def test_a_sum_is_read_centred_whatever_wraps_around() -> None:
    values = {"a": (-5, 2**62), "b": (3, -(2**62)), "c": (0, -7)}
    found = pads(keys(*values), 2)
    total = sum(
        (to_words(v) + found[label] for label, v in values.items()), np.zeros(2, dtype=np.uint64)
    )
    assert centred(total) == (-2, -7)


def test_masks_change_with_the_session_and_the_roster() -> None:
    made = keys("a", "b", "c")
    first, other = pads(made), pads(made, sid=bytes([2]) * 32)
    fewer = pads({label: made[label] for label in ("a", "b")})
    assert (first["a"] != other["a"]).all()
    pair = masks.stream(
        made["a"].exchange(made["b"].public),
        masks.pair_info(
            MANIFEST, SID, masks.roster_digest(MANIFEST, SID, public(made)),
            ("a", made["a"].public), ("b", made["b"].public),
        ),
        3,
    )  # fmt: skip
    assert (fewer["a"] != pair).all()  # the same pair, bound to another roster


@pytest.mark.parametrize("point", LOW_ORDER)
def test_keys_of_low_order_are_refused(point: int) -> None:
    with pytest.raises(MaskError, match="low order"):
        EphemeralKey().exchange(point.to_bytes(32, "little"))


@pytest.mark.parametrize("number", [P, P + 1, P + 5, 2**255 - 1, 2**255, 2**255 + 9, 2**256 - 1])
def test_keys_that_are_not_canonical_are_refused(number: int) -> None:
    with pytest.raises(MaskError, match="canonical"):
        EphemeralKey().exchange(number.to_bytes(32, "little"))
    with pytest.raises(MaskError, match="canonical"):
        EphemeralKey().exchange(bytes(31))


def test_a_dropped_key_gives_nothing_and_no_key_is_written_or_shown() -> None:
    key = EphemeralKey()
    with pytest.raises(TypeError, match="memory only"):
        pickle.dumps(key)
    assert "memory" in repr(key)
    assert not hasattr(key, "__dict__")
    key.drop()
    assert key.dropped
    with pytest.raises(MaskError, match="dropped"):
        key.exchange(EphemeralKey().public)


def test_a_roster_with_a_foreign_own_key_is_refused() -> None:
    made = keys("a", "b")
    roster = public(made) | {"a": Participant(EphemeralKey().public)}
    with pytest.raises(MaskError, match="present key of 'a'"):
        pad(made["a"], "a", roster, MANIFEST, SID, 1)


@pytest.mark.parametrize("components", [0, 1025])
def test_a_wrong_number_of_components_is_no_fault_of_a_key(components: int) -> None:
    """A session gives a view up for a MaskError, and would do so in every view."""
    made = keys("a", "b")
    with pytest.raises(AgentError, match="1 to 1024 components") as caught:
        pad(made["a"], "a", public(made), MANIFEST, SID, components)
    assert not isinstance(caught.value, MaskError)


def copied_key_pad(made: dict[str, EphemeralKey]) -> Any:
    """b's pad over {a, b, x} where a and x present the same key: the colluders a < b < x know it.

    a and x both hold one private key, so b's pads with them differ in labels only.
    """
    roster = public(made | {"x": made["a"]})
    return pad(made["b"], "b", roster, MANIFEST, SID, 4)


def test_a_copied_key_does_not_cancel_the_pad_of_an_honest_member() -> None:
    assert copied_key_pad(keys("a", "b")).all()


def test_without_labels_in_the_derivation_a_copied_key_cancels_the_pad(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Weakened variant: -m(a, b) + m(b, x) = 0, and z is the value itself."""

    def unlabelled(manifest: bytes, sid: bytes, rho: bytes, *pair: tuple[str, bytes]) -> bytes:
        return masks.digest(b"pair", manifest, sid, rho, *sorted(key for _, key in pair))

    monkeypatch.setattr(masks, "pair_info", unlabelled)
    assert not copied_key_pad(keys("a", "b")).any()


def test_texts_of_different_parts_have_different_hashes() -> None:
    assert masks.digest(b"x", b"ab", b"c") != masks.digest(b"x", b"a", b"bc")
    assert masks.digest(b"x", b"a") != masks.digest(b"xa")
    assert masks.digest(b"x", b"") != masks.digest(b"x")


def test_words_of_a_mask_are_uniform() -> None:
    """Each of 64 bits of 20,000 words is fair: false alarm below 64 * 2e-9."""
    words = masks.stream(bytes(range(32)), b"info", 1024 * 20)
    bits = np.unpackbits(words.view(np.uint8)).reshape(-1, 64).mean(axis=0)
    assert np.abs(bits - 0.5).max() < 6 * 0.5 / np.sqrt(words.size)


def test_both_ends_have_the_secret_of_the_library() -> None:
    private, own = X25519PrivateKey.generate(), EphemeralKey()
    theirs = private.public_key().public_bytes_raw()
    assert own.exchange(theirs) == private.exchange(X25519PublicKey.from_public_bytes(own.public))


@pytest.mark.parametrize("weakened", [False, True])
def test_a_copied_key_does_not_double_a_mask(
    weakened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """c copies b's key: a's masks with both must differ, or a's pad is even and z tells v's parity.

    The weakened variant derives a pair's key from both keys in the order of the labels, without them.
    """
    if weakened:
        monkeypatch.setattr(masks, "_end", lambda _, key: masks._framed(key))
    made = keys("a", "b")
    copied = Participant(made["b"].public)
    found = pad(made["a"], "a", public(made) | {"c": copied}, MANIFEST, SID, 64)
    assert (not (found & np.uint64(1)).any()) is weakened  # by chance: 2^-64
    a, b = (made[label].public for label in "ab")
    infos = {masks.pair_info(MANIFEST, SID, SID, ("a", a), (who, b)) for who in "bcd"}
    assert len(infos) == (1 if weakened else 3)
