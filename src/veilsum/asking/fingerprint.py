"""By what the rows of a table are known again: a keyed hash that does not depend on their order.

    cell    v of column c  ->  mix(bits(v) + k_c),      k_c = BLAKE2b(name of c, secret)
    row     i              ->  h_i = mix(sum over c of its cells)
    table                  ->  HMAC(secret, n, sum over i of mix(h_i + a), sum over i of mix(h_i + b))

All sums are mod 2^64, `mix` is the finaliser of SplitMix64 (Steele, Lea and Flood 2014), and a, b are two
numbers made of the secret. Sums do not depend on the order of rows or of columns, and count a row as often
as it is there. Two tables that are not the same have one fingerprint with probability 2^-128, or 2^-64 for
a few rows exchanged.

The secret is drawn once on this machine and stays there. Without it a fingerprint is a random text: who
has a budget file and guesses the rows cannot check the guess.

*Same rows*: the same values under the same names of columns, in any order, in any file format. Values are
compared as what they say: 3, 3.0 and "3" are one number, empty text and NaN are no value, "007" is text,
whole numbers beyond 2^53 are compared by their digits, times without a T and without zero fractions.
*Other rows*: one value, row or column more, less or changed, a column renamed, numbers rounded. Whether
such a table is a changed copy of a known one cannot be known from this fingerprint. Columns that nothing
can be asked of (a list in each row, two columns of one name) do not count.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilsum.asking.tables import Table
from veilsum.errors import QuestionError
from veilsum.questions.columns import TextColumn, distinct

Words = NDArray[np.uint64]
BITS = (1 << 64) - 1
EXACT = 1 << 53  # whole numbers beyond are no floats
CHUNK = 1 << 14  # rows at a time: they stay in the cache
_PLAIN = re.compile(r"[0-9.eE+\-\n]*")
_ODD = re.compile(
    r"\n[+-]?(?:0[0-9]|[0-9]{16,}\n)"
)  # text that is not the number that `float` reads
_STAMP = re.compile(r"\d{4}-\d\d-\d\d")


class Fingerprinter:
    """Fingerprints under one secret.

    Parameters
    ----------
    secret : bytes
        Of this machine.

    Examples
    --------
    >>> from veilsum.asking.tables import ArrayTable
    >>> of = Fingerprinter(bytes(32)).of
    >>> a, b = {"x": [1, 2], "y": ["p", None]}, {"y": ["", "p"], "x": ["2.0", "1"]}
    >>> of(ArrayTable(a)) == of(ArrayTable(b))
    True
    """

    def __init__(self, secret: bytes) -> None:
        """Derive the keys."""
        self._secret = secret
        self._lanes = [self._word(b"lane", bytes([lane])) for lane in (0, 1)]
        self._missing = self._word(b"missing", b"")

    @property
    def key(self) -> str:
        """By which fingerprints under the same secret are kept apart from others; says nothing of it."""
        return hmac.new(self._secret, b"which key", hashlib.sha256).hexdigest()[:16]

    def of(self, table: Table) -> str:
        """The fingerprint of a table, in hexadecimal; one pass over all of its columns."""
        rows, sums = 0, [0, 0]
        for batch in table.batches(_readable(table)):
            count = len(next(iter(batch.values())))
            hashed = np.zeros(count, dtype=np.uint64)
            for name, values in batch.items():
                self._add(hashed, name, self._bits(values))
            for start in range(0, count, CHUNK):
                row = hashed[start : start + CHUNK]
                mix(row)
                for k, lane in enumerate(self._lanes):
                    sums[k] += int(mix(row + lane).sum(dtype=np.uint64))
            rows += count
        plain = [rows, *(s & BITS for s in sums)]
        return hmac.new(self._secret, repr(plain).encode(), hashlib.sha256).hexdigest()

    def _add(self, hashed: Words, name: str, bits: Words) -> None:
        """Add the cells of a column to the hashes of their rows."""
        key = self._word(b"column", name.encode())
        for start in range(0, len(hashed), CHUNK):
            hashed[start : start + CHUNK] += mix(bits[start : start + CHUNK] + key)

    def _bits(self, values: NDArray[Any] | TextColumn) -> Words:
        """64 bits of each value, the same for the same value in any type."""
        kind = values.dtype.kind
        if isinstance(values, TextColumn):
            return self._of_distinct(values)
        if kind == "f":
            return self._of_floats(values.astype(np.float64))
        if kind in "iu":
            if values.size and (values.max() > EXACT or values.min() < -EXACT):
                return self._of_distinct(values)
            return self._of_floats(values.astype(np.float64))
        if kind == "O" and (plain := _plain_numbers(values)) is not None:
            return self._of_floats(plain)
        return self._of_distinct(values)

    def _of_floats(self, values: NDArray[np.float64]) -> Words:
        values += 0.0  # -0.0 is 0.0
        found = values.view(np.uint64)
        found[np.isnan(values)] = self._missing
        return found

    def _of_distinct(self, values: NDArray[Any] | TextColumn) -> Words:
        known, inverse = distinct(values.astype(str) if values.dtype.kind in "mM" else values)
        found = np.fromiter((self._of_one(v) for v in known), np.uint64, len(known))
        return np.asarray(found[inverse])

    def _of_one(self, value: Any) -> int:
        """Of one value: that of a number, or of a text."""
        if value is None or (isinstance(value, float) and value != value):
            return int(self._missing)
        if isinstance(value, bool):
            return self._of_text(str(value))
        number = (
            _number(value) if isinstance(value, int | float) else _number_of(str(value).strip())
        )
        if number is None:
            return self._of_text(str(value).strip())
        return int(self._of_floats(np.array([number]))[0])

    def _of_text(self, text: str) -> int:
        if not text or text in ("NaT", "<NA>"):
            return int(self._missing)
        if text.lower() in ("true", "false"):
            text = text.lower()
        if _STAMP.match(text):
            text = re.sub(r"[ T]00:00(?::00(?:\.0+)?)?$|(?<=:\d\d)\.0+$", "", text).replace(
                "T", " "
            )
        return int(self._word(b"text", text.encode("utf-8", "surrogatepass")))

    def _word(self, purpose: bytes, text: bytes) -> np.uint64:
        found = hashlib.blake2b(text, digest_size=8, key=self._secret, person=purpose).digest()
        return np.uint64(int.from_bytes(found, "little"))


def together(fingerprints: Sequence[str]) -> str:
    """Of a table that is made of others, in whatever order."""
    if len(fingerprints) == 1:
        return fingerprints[0]
    return hashlib.sha256("".join(sorted(fingerprints)).encode()).hexdigest()


def mix(x: Words) -> Words:
    """A permutation of 64-bit words that spreads every bit over all, in place."""
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def _readable(table: Table) -> list[str]:
    """The columns that can be read: not those with a list in each row, nor two of one name."""
    names = [name for name, times in Counter(table.columns).items() if times == 1]
    try:
        next(table.batches(names))
    except QuestionError:
        found = [name for name in names if _reads(table, name)]
        if not found:
            raise
        return found
    return names


def _reads(table: Table, column: str) -> bool:
    try:
        next(table.batches([column]))
    except QuestionError:
        return False
    return True


def _plain_numbers(values: NDArray[Any]) -> NDArray[np.float64] | None:
    """A column of text as floats if all of it is numbers written plainly; None is NaN."""
    texts = values.tolist()
    there = [text for text in texts if text is not None]
    try:
        joined = "\n".join(["", *there, ""])
        if not _PLAIN.fullmatch(joined) or _ODD.search(joined):
            return None
        numbers = np.fromiter(map(float, there), np.float64, len(there))
    except (TypeError, ValueError):
        return None
    if len(there) == len(texts):
        return numbers
    found = np.full(len(texts), math.nan)
    found[[text is not None for text in texts]] = numbers
    return found


def _number(value: float) -> float | None:
    """A number as a float; None if it is no float."""
    if isinstance(value, int) and abs(value) > EXACT:
        return None
    return float(value)


def _number_of(text: str) -> float | None:
    """The number that a text is; None for other text, and for digits that a float does not hold."""
    if "_" in text or re.match(r"[+-]?0\d", text):
        return None
    if re.fullmatch(r"[+-]?\d{16,}", text):
        return _number(int(text)) if len(text) < 20 else None
    try:
        return float(text)
    except ValueError:
        return None
