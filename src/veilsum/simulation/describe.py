"""Descriptions of objects by value: equal descriptions mean objects that compute the same.

    described(a) = described(b)    only if    a and b have the same type and the same contents

Noise, finished tasks and checkpoints are found by these descriptions, so two things that differ
must never share one. Objects are described by their dataclass fields, attributes and slots;
functions by their code, constants, defaults, closures, the globals that they read and what they
are bound to; classes outside veilsum, numpy and the standard library by their methods and
attributes; arrays by dtype, shape and bytes. Values of cached properties follow from the rest and
are left out: a description does not change when one is computed.

What cannot be read (a generator, an object whose memory belongs to an extension) is described by a
token that is drawn afresh: it equals nothing, not even itself the next time. `exactly` raises
there. A function that finds what it reads at run time (`eval`, `getattr` with a computed name, a
file, the clock) is beyond any description.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import secrets
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from veilsum.errors import VeilsumError

MOST, DEEPEST = 20_000, 50  # things in one description, and one inside the other: ample

_FIXED = frozenset({
    "_collections", "_functools", "_operator", "abc", "builtins", "cmath", "collections", "copyreg",
    "dataclasses", "datetime", "decimal", "enum", "fractions", "functools", "itertools", "math",
    "veilsum", "numbers", "numpy", "operator", "pathlib", "re", "scipy", "types", "typing",
})  # fmt: skip
"""Packages in which a name says what a function or class does."""

_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes, type(...)})
_GENERATED = frozenset({
    "__init__", "__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__",
    "__setattr__", "__delattr__", "__replace__",
})  # fmt: skip
_NO_CONTENTS = frozenset({
    "__dict__", "__weakref__", "__module__", "__qualname__", "__doc__", "__annotations__",
    "__dataclass_fields__", "__dataclass_params__", "__match_args__", "__abstractmethods__",
    "__parameters__", "__orig_bases__", "__firstlineno__", "__static_attributes__",
    "__annotate_func__", "__annotations_cache__", "_abc_impl", "__protocol_attrs__",
})  # fmt: skip


def described(thing: Any) -> str:
    """A hash of what it is made of; never the same twice where that cannot be read."""
    return _Reader().read(thing)


def exactly(thing: Any, what: str) -> str:
    """As `described`, for what must be found again; raise where it could not be."""
    reader = _Reader()
    text = reader.read(thing)
    if reader.unreadable:
        raise VeilsumError(
            f"{what} cannot be distinguished from others by its contents: "
            f"{reader.unreadable[0]}; its results would not be recognised as its own: run it "
            "without a folder of tasks or checkpoints, or build it from functions, numbers and arrays"
        )
    return text


def is_exact(thing: Any) -> bool:
    """Whether all that it is made of can be read."""
    reader = _Reader()
    reader.read(thing)
    return not reader.unreadable


class _Reader:
    """One description in progress: the objects that enclose it, its quota, what it could not read."""

    def __init__(self) -> None:
        self.inside: list[int] = []  # ids, outermost first
        self.path: list[str] = []
        self.left = MOST
        self.unreadable: list[str] = []

    def read(self, thing: Any, name: str = "") -> str:
        """The hash of one thing; of one that contains itself, how far out it is met again."""
        if type(thing) in _PLAIN:
            return _hashed(type(thing).__name__, repr(thing))
        key = id(thing.module if isinstance(thing, _Part) else thing)
        if key in self.inside:
            return _hashed("outer", str(self.inside.index(key)))
        self.left -= 1
        if self.left < 0 or len(self.inside) == DEEPEST:
            return self._unknown("it is made of too many things")
        self.inside.append(key)
        self.path.append(name)
        try:
            return self._read(thing)
        except Exception:
            return self._unknown(f"reading a {type(thing).__qualname__} fails")
        finally:
            self.inside.pop()
            self.path.pop()

    def _read(self, thing: Any) -> str:
        if _is_fixed(thing):
            return _hashed("name", _module(thing), _name(thing))
        for kinds, reader in _READERS:
            if isinstance(thing, kinds):
                return reader(self, thing)
        return self._object(thing)

    def _unknown(self, why: str) -> str:
        place = ".".join(name for name in self.path if name) or "it"
        self.unreadable.append(f"{place}: {why}")
        return _hashed("unknown", secrets.token_hex(32))

    def _pairs(self, pairs: Iterator[tuple[str, Any]]) -> str:
        return _hashed("pairs", *(x for name, v in pairs for x in (name, self.read(v, name))))

    def _object(self, thing: Any, base: type = object, value: str = "") -> str:
        """Its class, the value of a builtin base, and all that it holds."""
        kind = type(thing)
        if _hides_memory(kind, base):
            return self._reduced(thing)
        return _hashed(
            "object", self.read(kind, kind.__name__), value, self._pairs(_contents(thing))
        )

    def _reduced(self, thing: Any) -> str:
        """Of a class that is known by its name: what `copy` and `pickle` would make it from."""
        try:
            made = thing.__reduce_ex__(4) if _is_fixed(type(thing)) else None
        except Exception:
            made = None
        if not isinstance(made, tuple) or any(part is not None for part in made[3:]):
            return self._unknown(f"the contents of a {type(thing).__qualname__} cannot be read")
        return _hashed("made", *(self.read(part) for part in made[:3]))

    def _sequence(self, thing: Any) -> str:
        base = tuple if isinstance(thing, tuple) else list
        items = list(base.__iter__(thing))
        if {type(item) for item in items} <= _PLAIN:
            value = _hashed("plain", repr(items))
        else:
            value = _hashed("items", *(self.read(item, str(k)) for k, item in enumerate(items)))
        return self._of_base(thing, base, value)

    def _set(self, thing: Any) -> str:
        base = frozenset if isinstance(thing, frozenset) else set
        return self._of_base(thing, base, _hashed("set", *sorted(map(self.read, thing))))

    def _mapping(self, thing: Any) -> str:
        """In its order: a function may go through it."""
        pairs = [(self.read(k), self.read(v, str(k)[:40])) for k, v in dict.items(thing)]
        return self._of_base(thing, dict, _hashed("mapping", *(x for pair in pairs for x in pair)))

    def _proxy(self, thing: Any) -> str:
        return _hashed("proxy", self.read(dict(thing)))

    def _scalar(self, thing: Any) -> str:
        base = next(b for b in (int, float, complex, str, bytes) if isinstance(thing, b))
        return self._of_base(thing, base, _hashed(base.__name__, base.__repr__(thing)))

    def _of_base(self, thing: Any, base: type, value: str) -> str:
        return _hashed(base.__name__, value) if type(thing) is base else self._object(
            thing, base, value
        )  # fmt: skip

    def _member(self, thing: Enum) -> str:
        kind = type(thing)
        return _hashed("member", self.read(kind, kind.__name__), thing.name)

    def _range(self, thing: range | slice) -> str:
        parts = (thing.start, thing.stop, thing.step)
        return _hashed(type(thing).__name__, *map(self.read, parts))

    def _array(self, thing: Any) -> str:
        whole = np.asarray(thing)
        if whole.dtype.hasobject:
            content = self.read(whole.ravel().tolist())
        else:
            content = hashlib.sha256(np.ascontiguousarray(whole).tobytes()).hexdigest()
        kind = "scalar" if isinstance(thing, np.generic) else "array"
        value = _hashed(kind, repr(whole.dtype), repr(whole.shape), content)
        if type(thing) is np.ndarray or isinstance(thing, np.generic):
            return value
        return self._object(thing, np.ndarray, value)

    def _ufunc(self, thing: np.ufunc) -> str:
        """By the package that has it under its name: a ufunc does not say."""
        for module in ("numpy", "scipy.special"):
            if getattr(sys.modules.get(module), thing.__name__, None) is thing:
                return _hashed("ufunc", module, thing.__name__)
        return self._unknown("a custom ufunc cannot be read")

    def _function(self, thing: FunctionType) -> str:
        cells = zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=True)
        return _hashed(
            "function", _module(thing), thing.__qualname__, self._code(thing.__code__),
            self.read(thing.__defaults__), self.read(thing.__kwdefaults__),
            self._pairs((name, _content(cell)) for name, cell in cells),
            self._globals(thing), self._pairs(iter(sorted(vars(thing).items()))),
        )  # fmt: skip

    def _code(self, code: CodeType) -> str:
        """What it does, not where it stands: no file, no lines."""
        numbers = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        return _hashed(
            "code", repr(numbers), repr(names), code.co_code.hex(), code.co_exceptiontable.hex(),
            *(self._constant(constant) for constant in code.co_consts),
        )  # fmt: skip

    def _constant(self, constant: Any) -> str:
        return self._code(constant) if isinstance(constant, CodeType) else self.read(constant)

    def _globals(self, thing: FunctionType) -> str:
        """The globals that it reads; of a module outside the known ones, what it may read there."""
        loaded, imported, names = _loaded(thing.__code__)
        found = {name: thing.__globals__[name] for name in loaded if name in thing.__globals__}
        found |= {name: sys.modules.get(name) for name in imported}
        return self._pairs((n, _part(v, names)) for n, v in sorted(found.items()))

    def _some(self, thing: _Part) -> str:
        held = vars(thing.module)
        if "__getattr__" in held:
            return self._unknown(f"the module {thing.module.__name__} computes its attributes")
        inner = ((n, _part(held[n], thing.names)) for n in thing.names if n in held)
        return _hashed("part", thing.module.__name__, self._pairs(inner))

    def _module(self, thing: ModuleType) -> str:
        if thing.__name__.partition(".")[0] in _FIXED:
            return _hashed("module", thing.__name__)
        return self._unknown(f"all of the module {thing.__name__} may be read by it")

    def _method(self, thing: MethodType) -> str:
        return _hashed("method", self.read(thing.__func__), self.read(thing.__self__))

    def _builtin(self, thing: BuiltinFunctionType) -> str:
        if thing.__self__ is None or isinstance(thing.__self__, ModuleType):
            return self._unknown(f"the compiled function {thing.__qualname__} cannot be read")
        return _hashed("builtin", thing.__name__, self.read(thing.__self__))

    def _wrapper(self, thing: Any) -> str:
        """staticmethod, classmethod, lru_cache: around a function."""
        return _hashed(type(thing).__name__, self.read(thing.__wrapped__))

    def _cached(self, thing: functools.cached_property[Any]) -> str:
        return _hashed("cached_property", self.read(thing.func))

    def _property(self, thing: property) -> str:
        return _hashed("property", *map(self.read, (thing.fget, thing.fset, thing.fdel)))

    def _slot(self, thing: MemberDescriptorType | GetSetDescriptorType) -> str:
        return _hashed("slot", thing.__name__)

    def _class(self, thing: type) -> str:
        """A class that its name does not tell: its bases, methods and attributes."""
        if thing.__flags__ & (1 << 8):  # immutable: a class of an extension
            return self._unknown(f"the compiled class {thing.__qualname__} cannot be read")
        inner = ((n, v) for n, v in sorted(vars(thing).items()) if not _is_made(thing, n, v))
        bases = (self.read(base, base.__name__) for base in (type(thing), *thing.__bases__))
        return _hashed("class", _module(thing), thing.__qualname__, *bases, self._pairs(inner))

    def _sparse(self, thing: Any) -> str:
        rows = thing.tocsr()
        parts = (rows.shape, rows.data, rows.indices, rows.indptr)
        return _hashed("sparse", type(thing).__name__, *map(self.read, parts))


class _Part:
    """A module of which a function reads some names."""

    def __init__(self, module: ModuleType, names: tuple[str, ...]) -> None:
        self.module, self.names = module, names


def _part(value: Any, names: tuple[str, ...]) -> Any:
    known = not isinstance(value, ModuleType) or value.__name__.partition(".")[0] in _FIXED
    return value if known else _Part(value, names)


class _Sparse(type):
    """Any sparse matrix, without loading scipy for it."""

    def __instancecheck__(cls, thing: Any) -> bool:
        sparse = sys.modules.get("scipy.sparse")
        return sparse is not None and _is_fixed(type(thing)) and bool(sparse.issparse(thing))


class _AnySparse(metaclass=_Sparse):
    pass


_READERS: tuple[tuple[Any, Callable[[_Reader, Any], str]], ...] = (
    (Enum, _Reader._member),
    (_Part, _Reader._some),
    (np.ndarray | np.generic, _Reader._array),
    (tuple | list, _Reader._sequence),
    (set | frozenset, _Reader._set),
    (dict, _Reader._mapping),
    (MappingProxyType, _Reader._proxy),
    (int | float | complex | str | bytes, _Reader._scalar),
    (range | slice, _Reader._range),
    (np.ufunc, _Reader._ufunc),
    (FunctionType, _Reader._function),
    (MethodType, _Reader._method),
    (BuiltinFunctionType, _Reader._builtin),
    (ModuleType, _Reader._module),
    (staticmethod | classmethod | functools._lru_cache_wrapper, _Reader._wrapper),
    (functools.cached_property, _Reader._cached),
    (property, _Reader._property),
    (MemberDescriptorType | GetSetDescriptorType, _Reader._slot),
    (type, _Reader._class),
    (_AnySparse, _Reader._sparse),
)


def _hashed(*parts: str) -> str:
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _module(thing: Any) -> str:
    """The module that it says it is from; a spawned worker calls the main one by another name."""
    name = getattr(thing, "__module__", None) or getattr(
        getattr(thing, "__objclass__", None), "__module__", ""
    )
    return "__main__" if name == "__mp_main__" else str(name)


def _name(thing: Any) -> str:
    return str(getattr(thing, "__qualname__", None) or getattr(thing, "__name__", ""))


def _is_fixed(thing: Any) -> bool:
    """Whether a known package has this very thing under the name that it bears."""
    if not callable(thing) or not isinstance(getattr(thing, "__qualname__", None), str):
        return False
    module = _module(thing)
    found: Any = sys.modules.get(module) if module.partition(".")[0] in _FIXED else None
    for part in _name(thing).split("."):
        found = getattr(found, part, None)
    return found is thing


def _hides_memory(kind: type, base: type) -> bool:
    """Whether objects of a class are larger than their base, attributes and slots account for."""
    slots = sum(isinstance(v, MemberDescriptorType) for c in kind.__mro__ for v in vars(c).values())
    own = slots + bool(kind.__dictoffset__) + bool(kind.__weakrefoffset__)
    return kind.__basicsize__ > base.__basicsize__ + 8 * own or (
        kind.__itemsize__ != base.__itemsize__
    )


def _contents(thing: Any) -> Iterator[tuple[str, Any]]:
    """Fields, attributes and slots by name, but for the values of cached properties."""
    kinds = type(thing).__mro__
    names = {f.name for f in fields(thing)} if is_dataclass(thing) else set()
    held = {name: getattr(thing, name) for name in names if hasattr(thing, name)}
    for name, value in getattr(thing, "__dict__", {}).items():
        above = next((vars(c)[name] for c in kinds if name in vars(c)), None)
        if name in names or not isinstance(above, functools.cached_property):
            held[name] = value
    for kind in kinds:
        for name, slot in vars(kind).items():
            if isinstance(slot, MemberDescriptorType) and hasattr(thing, name):
                held.setdefault(f"{kind.__qualname__}.{name}", slot.__get__(thing))
    return iter(sorted(held.items()))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return ...


def _loaded(code: CodeType) -> tuple[set[str], set[str], tuple[str, ...]]:
    """Globals that a function reads, modules that it imports, and all names in it."""
    loaded: set[str] = set()
    imported: set[str] = set()
    names = set(code.co_names)
    for step in dis.get_instructions(code):
        if step.opname in {"LOAD_GLOBAL", "LOAD_NAME"}:
            loaded.add(str(step.argval))
        elif step.opname == "IMPORT_NAME":
            imported.add(str(step.argval))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = _loaded(constant)
            loaded, imported, names = loaded | inner[0], imported | inner[1], names | {*inner[2]}
    return loaded, imported, tuple(sorted(names))


def _is_made(kind: type, name: str, value: Any) -> bool:
    """Whether the interpreter or `dataclass` put it there: it follows from the rest."""
    if name in _NO_CONTENTS:
        return True
    written = getattr(getattr(value, "__wrapped__", value), "__code__", None)
    made = written is None or written.co_filename == "<string>"
    return name in _GENERATED and is_dataclass(kind) and made
