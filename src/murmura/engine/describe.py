"""What a thing is made of, by value, as a text that two equal things have in common."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def described(thing: Any) -> str:
    """What it is made of, by value; of things that do not say, the type."""
    if thing is None or isinstance(thing, str | int | float | bool | tuple | list | range):
        return repr(thing)
    if isinstance(thing, Mapping):
        return repr(sorted((str(k), described(v)) for k, v in thing.items()))
    if isinstance(thing, np.ndarray | np.generic):
        whole = np.asarray(thing)
        return f"{whole.dtype}{whole.shape}{hashlib.sha256(whole.tobytes()).hexdigest()}"
    if callable(thing) and hasattr(thing, "__qualname__"):
        return f"{thing.__module__}.{thing.__qualname__}"
    kind = f"{type(thing).__module__}.{type(thing).__qualname__}"
    if is_dataclass(thing):
        return f"{kind}({[(f.name, described(getattr(thing, f.name))) for f in fields(thing)]})"
    return kind
