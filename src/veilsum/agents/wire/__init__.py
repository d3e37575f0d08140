"""Messages as bytes: `encode` refuses what it does not know, and `decode` trusts nothing.

A frame is a fixed header (numbers big-endian, counts last), then the labels of sender and receiver,
each a length and UTF-8, then integers, each a length and two's complement in bit_length // 8 + 1
bytes (0 in none):

    Hello           "mu" 6 1 incarnation peer_incarnation epoch acknowledged manifest[32] tag[8]
                    echo[8] own known asks #fields
                    | sender receiver | 8 bytes each
    CumulativeMass  "mu" 6 2 incarnation peer_incarnation round acknowledged phase depth stop
                    releases flags tag[8] echo[8] run[8] head[16] head_proof[8] view[8]
                    #sums #low #high
                    | sender receiver | weight sums low high
    Attendance      "mu" 6 3 incarnation generation run[8] asks size of each set[5] #readings width
                    | sender receiver | dropped present contributing finished ended | readings
    RecordExchange  "mu" 6 4 query concluded run[8] echo[8] flags size of digests #names size of chunk
                    | sender receiver | digests | names, each a bucket and #8 bytes each | chunk
    StatusMessage   "mu" 6 5 sequence size of text
                    | sender receiver | text in UTF-8

`own` and `known` are each start releases run[8] start_proof[8] head[16] head_proof[8]. The flags
are leaving (1) and done (2), of a RecordExchange done (1) and heard_done (2). An absent tag, echo,
run, head, proof or view is as many bytes of 0. A set is a number in as few bytes as it takes, and each
count of readings takes `width` bytes, as few as the largest needs.

Every message has one encoding in each version, so encode(decode(b), version of b) == b where b has no
extension that is skipped. Sizes and counts are bounded before anything is allocated. There are no
floats: NaN and infinities cannot be expressed.

Versions (`versions.WIRE`). The third byte is the version. Version 6 adds to 5 what later versions need:

- a frame may end in extensions, in ascending order of their numbers: number[1] size[2] and so many
  bytes. An extension from 128 on that the reader does not know is skipped; with an unknown one below
  128 the whole frame is refused, because it would mean something else without it.
- a frame of a kind from 128 on that the reader does not know is skipped (`SkippedFrameError`); of another
  unknown kind it is refused.

A field that is added is an extension, so that readers of the version before go on reading the frame.
A Hello says which version its sender speaks (`Hello.speaks`): extension 1, in version 5, which has no
extensions, one more field of 8 bytes, "mu-wire" and the version. Readers of version 5 use fields only
to find where two manifests differ, and only as many as they have themselves.

Members exchange the first four. A StatusMessage is for observers and has functions of its own: `encode`
and `decode`, which links of members use, know it no more than any other bytes.

Modules: `frames` (limits, errors, labels, counts), `extensions` (and the version that a Hello speaks),
`messages` (one encoder and one decoder each), `codec` (`encode`, `decode` and those of a status).
"""

from __future__ import annotations

from veilsum.agents.wire.codec import decode, decode_status, encode, encode_status
from veilsum.agents.wire.extensions import EXTENSIBLE, OPTIONAL, SPEAKS
from veilsum.agents.wire.frames import (
    MAGIC,
    MOST_BYTES,
    MOST_COUNT,
    MOST_LABEL,
    OLDEST,
    VERSION,
    SkippedFrameError,
    WireError,
)
from veilsum.agents.wire.messages import BUCKETS, MOST_FIELDS, MOST_INTEGER, MOST_SUMS, NAME

__all__ = [
    "BUCKETS",
    "EXTENSIBLE",
    "MAGIC",
    "MOST_BYTES",
    "MOST_COUNT",
    "MOST_FIELDS",
    "MOST_INTEGER",
    "MOST_LABEL",
    "MOST_SUMS",
    "NAME",
    "OLDEST",
    "OPTIONAL",
    "SPEAKS",
    "VERSION",
    "SkippedFrameError",
    "WireError",
    "decode",
    "decode_status",
    "encode",
    "encode_status",
]
