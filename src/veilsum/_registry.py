"""Things by name, where each thing registers itself: one file per thing and no second list.

ALGORITHMS = Registry[type[Algorithm]]("algorithm", "veilsum.algorithms", AlgorithmError)

class Algorithm:
    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        ALGORITHMS.enlist(cls)      # a class of the package that states its name

The first question (`names`, `get`, `in`, iteration) imports every module of the package, so that a
new file is known unasked. A class from elsewhere is known after `add`, and never unasked: the name
of a class in a test or a notebook is not one that scenarios know.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from threading import Lock
from typing import Any, Generic, TypeVar

from veilsum.errors import VeilsumError

Thing = TypeVar("Thing")


class Registry(Generic[Thing]):
    """The things of one kind by name, in alphabetical order: imports in any order give one listing.

    Case, spaces, hyphens and underscores of a name do not matter where a thing is looked up.

    Parameters
    ----------
    kind : str
        What the things are called in errors, such as "algorithm".
    package : str
        The package whose modules are imported at the first question; "" for none.
    error : type of VeilsumError
        What an unknown name or a second thing of a name raises.
    hints
        For folded names that people try and that nothing has: what they are looking for.

    Examples
    --------
    >>> from veilsum.errors import AlgorithmError
    >>> colours = Registry[int]("colour", "", AlgorithmError)
    >>> colours.add("dark-red", 0x8B0000)
    >>> colours.names(), colours.get("Dark red"), "blue" in colours
    (['dark-red'], 9109504, False)
    """

    def __init__(
        self,
        kind: str,
        package: str,
        error: type[VeilsumError],
        hints: Mapping[str, str] | None = None,
    ) -> None:
        self.kind, self.package, self.error, self.hints = kind, package, error, hints or {}
        self._things: dict[str, tuple[str, Thing]] = {}  # folded name -> name, thing
        self._lock = Lock()
        self._complete = not package

    def add(self, name: str, thing: Thing) -> None:
        """Add a thing; another of that name is an error, a reloaded definition replaces its old one."""
        if not isinstance(name, str) or not fold(name):
            raise self.error(f"the name of a {self.kind} must be text; found {name!r}")
        with self._lock:
            known = self._things.get(fold(name))
            if known is not None and _origin(known[1]) != _origin(thing):
                raise self.error(
                    f"the name {name!r} belongs to another {self.kind}, {_origin(known[1])}; choose "
                    f"another name for {_origin(thing)}"
                )
            self._things[fold(name)] = (name, thing)

    def enlist(self, cls: Any) -> None:
        """Add a class of the package that states a name in its own body; leave others alone."""
        name = vars(cls).get("name")
        if isinstance(name, str) and f"{cls.__module__}.".startswith(f"{self.package}."):
            self.add(name, cls)

    def remove(self, name: str) -> None:
        """Forget a thing, if it is known."""
        with self._lock:
            self._things.pop(fold(name), None)

    def get(self, name: str) -> Thing:
        """The thing of that name, or an error that says which name is near and which are known."""
        known = self._things.get(fold(name))  # without importing the others
        known = known or self._all().get(fold(name))
        if known is None:
            names = self.names()
            raise self.error(
                f"no {self.kind} is called {name!r}; {self.hint(name)}known: {', '.join(names)}"
            )
        return known[1]

    def hint(self, name: str) -> str:
        """What somebody who tries an unknown name may be looking for; "" if nobody can know."""
        hint = self.hints.get(fold(name))
        return f"{hint}; " if hint else did_you_mean(name, self.names())

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(name for name, _ in self._all().values())

    def items(self) -> list[tuple[str, Thing]]:
        """All names with their things, sorted."""
        return sorted(self._all().values(), key=lambda item: item[0])

    def values(self) -> list[Thing]:
        """All things, sorted by name."""
        return [thing for _, thing in self.items()]

    def __getitem__(self, name: str) -> Thing:
        return self.get(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and fold(name) in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, tuple[str, Thing]]:
        """A copy of the table, once every module of the package is imported.

        Imports run without the lock: a thread that imports a module adds its classes, and would
        wait for the thread that waits for that module.
        """
        if not self._complete:
            package = importlib.import_module(self.package)
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{self.package}.{module.name}")
            self._complete = True
        with self._lock:
            return dict(self._things)


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """ "did you mean learn? ", for the known name that is nearest to a name; "" if none is near."""
    folded = {fold(one): one for one in known}
    near = difflib.get_close_matches(fold(name), folded, n=1, cutoff=cutoff)
    return f"did you mean {folded[near[0]]}? " if near else ""


def fold(name: str) -> str:
    """A name without what does not matter in it: case, spaces, hyphens, underscores."""
    return str(name).lower().translate(str.maketrans("", "", " -_"))


def _origin(thing: Any) -> str:
    """Where a thing is defined; a value without a definition is its own."""
    home, name = (getattr(thing, key, None) for key in ("__module__", "__qualname__"))
    return f"{home}.{name}" if name else repr(thing)
