"""Asks in processes that are killed, raced or denied the disk; run by test_budget_kill.py.

    python budget_worker.py kill|half|full|race|copies FOLDER [weakened]

`kill` stops a process with SIGKILL before its k-th write to SQLite's files, `half` in the middle of it,
`full` fails that write and all later ones as a full disk does; for k = 1, 2, ... until none is left. Then
the question is asked again, and what anybody has seen is compared with what the budget has. `race` asks
two questions at once where the budget is enough for one; `copies` does so of two copies of a file.
Prints what went wrong, and in how many places it tried, as JSON.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import errno
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from veilsum.asking.budget import BudgetFile, costs
from veilsum.asking.budget_log import RELEASE, BudgetLog
from veilsum.asking.tables import open_table
from veilsum.errors import QuestionError
from veilsum.privacy.accounting import PrivacyEvent

SYSTEM_CALLS = {  # by which SQLite changes files: their arguments
    b"write": (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t),
    b"pwrite": (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64),
    b"pwrite64": (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64),
    b"ftruncate": (ctypes.c_int, ctypes.c_int, ctypes.c_int64),
    b"unlink": (ctypes.c_int, ctypes.c_char_p),
}
KEPT: list[Any] = []  # callbacks that SQLite calls
MOST = 400  # places in a question, for a loop that ends
REFUSED, UNUSED = 3, 4  # exit codes
COSTS = PrivacyEvent.of(1.0)
TERMS = "the question"


class SqliteFiles(ctypes.Structure):
    """sqlite3_vfs, https://www.sqlite.org/c3ref/vfs.html"""

    _fields_ = [
        *((name, ctypes.c_int) for name in ("version", "size", "path")),
        *((f"f{k}", ctypes.c_void_p) for k in range(16)),
        (
            "set_call",
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
        ),
    ]


def at_write(k: int, act: Callable[[Any, tuple[Any, ...]], Any]) -> Callable[[], int]:
    """Call `act` in place of the k-th change of a file, and of all later ones; how many there were."""
    library = ctypes.CDLL(_sqlite3.__file__)
    library.sqlite3_vfs_find.restype = ctypes.c_void_p
    address = library.sqlite3_vfs_find(None)
    files = SqliteFiles.from_address(address)
    c, seen = ctypes.CDLL(None, use_errno=True), [0]
    for name, signature in SYSTEM_CALLS.items():
        real = getattr(c, name.decode())
        real.restype, real.argtypes = signature[0], signature[1:]

        def call(*arguments: Any, real: Any = real) -> Any:
            seen[0] += 1
            return act(real, arguments) if seen[0] >= k else real(*arguments)

        callback = ctypes.CFUNCTYPE(*signature, use_errno=True)(call)
        KEPT.append(callback)
        files.set_call(address, name, ctypes.cast(callback, ctypes.c_void_p))
    return lambda: seen[0]


def kill(real: Any, arguments: tuple[Any, ...]) -> None:
    """Before the write."""
    del real, arguments
    os.kill(os.getpid(), signal.SIGKILL)


def half(real: Any, arguments: tuple[Any, ...]) -> None:
    """In the middle of a write, after anything else."""
    real(*(a // 2 if n == 2 and len(arguments) > 2 else a for n, a in enumerate(arguments)))
    os.kill(os.getpid(), signal.SIGKILL)


def full(real: Any, arguments: tuple[Any, ...]) -> Any:
    """No space is left; files can be removed."""
    if len(arguments) < 3:
        return real(*arguments)
    ctypes.set_errno(errno.ENOSPC)
    return -1


class ChargesLater(BudgetFile):
    """A weakened twin: the answer is returned, and charged when the file is closed."""

    def once(self, terms: str, event: Any, draw: Any, *_: Any, **__: Any) -> Any:
        found = self.answer(terms) or draw()
        self.due = terms, event, found
        return found

    def __exit__(self, *error: Any) -> None:
        terms, event, found = self.due
        super().once(terms, event, lambda: found, limit=10)
        super().__exit__(*error)


class ChecksFirst(BudgetFile):
    """A weakened twin: it looks at the budget, draws and charges, without holding the file."""

    def once(self, terms: str, event: Any, draw: Any, *_: Any, **__: Any) -> Any:
        if self.spent(event) > 1:
            raise QuestionError("spent")
        found = draw()
        return super().once(terms, event, lambda: found, limit=10)


def asks(
    kind: type[BudgetFile], data: Path, folder: Path, terms: str, limit: float, wait: bool
) -> None:
    """Ask once; a line in `draws` for each draw, and in `seen` for each answer that was returned."""

    def draw() -> dict[str, Any]:
        found = {"x": random.SystemRandom().getrandbits(60)}
        note(folder / "draws", found)
        end = time.monotonic() + 0.5
        while wait and len(noted(folder / "draws")) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        return found

    with kind.of(open_table(data)) as file:
        answer = file.once(terms, COSTS, draw, limit=limit)
        note(folder / "seen", answer)


def note(path: Path, line: Any) -> None:
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def noted(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def child(run: Callable[[], None]) -> int:
    """The process of a child that runs it."""
    pid = os.fork()
    if not pid:
        try:
            run()
            os._exit(0)
        except QuestionError:
            os._exit(REFUSED)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            os._exit(1)
    return pid


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fresh(folder: Path, earlier: bool) -> Path:
    """A folder with data, and an earlier answer."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.environ["VEILSUM_HOME"] = str(folder / "home")
    data = folder / "a.csv"
    data.write_text("x\n1\n2\n2\n")
    if earlier:
        assert ended(child(lambda: asks(BudgetFile, data, folder, "earlier", 10, False))) == 0
        (folder / "seen").unlink()
        (folder / "draws").unlink()
    return data


def at_every_write(act: Any, folder: Path, kind: type[BudgetFile]) -> dict[str, Any]:
    wrong, places = [], 0
    for earlier in (False, True):
        for k in range(1, MOST):
            data = fresh(folder, earlier)

            def run(data: Path = data, k: int = k) -> None:
                count = at_write(k, act)
                asks(kind, data, folder, TERMS, 10, False)
                os._exit(UNUSED if count() < k else 0)

            code = ended(child(run))
            wrong += [
                f"{k}: {problem}" for problem in after(code, act, data, folder, kind, earlier)
            ]
            if code == UNUSED or (wrong and kind is not BudgetFile):
                break
            places += 1
    return {"places": places, "wrong": wrong}


def after(
    code: int, act: Any, data: Path, folder: Path, kind: type[BudgetFile], earlier: bool
) -> list[str]:
    """What is wrong after a question that ended somehow was asked again."""
    wrong = []
    if code not in ((UNUSED, REFUSED, 0) if act is full else (UNUSED, -signal.SIGKILL)):
        wrong.append(f"ended with {code}")
    before = len(noted(folder / "draws"))
    budget, kept = folder / "a.budget", False
    if budget.exists() and not (folder / "a.budget-journal").exists() and budget.stat().st_size:
        log = BudgetLog(budget)
        kept = any(e.body["terms"] == TERMS for e in log.of_kind(RELEASE))
        log.close()
    if ended(child(lambda: asks(kind, data, folder, TERMS, 10, False))):
        return [*wrong, "cannot be asked again"]
    seen, draws = noted(folder / "seen"), noted(folder / "draws")
    if any(one != seen[0] for one in seen):
        wrong.append("two answers were seen")
    if kept and len(draws) > before:
        wrong.append("drawn again although it was kept")
    log = BudgetLog(budget)
    terms = [entry.body["terms"] for entry in log.of_kind(RELEASE)]
    if terms != [*(["earlier"] if earlier else []), TERMS]:
        wrong.append(f"releases are {terms}")
    if log.answer(log.of_kind(RELEASE)[-1]) != seen[-1]:
        wrong.append("another answer is kept")
    if len(costs(log)) != len(terms):
        wrong.append("not charged once each")
    log.close()
    return wrong


def at_once(folder: Path, kind: type[BudgetFile], copies: bool) -> dict[str, Any]:
    """Two questions at once, where the budget is enough for one."""
    one = fresh(folder, False)
    other = folder / "b.csv" if copies else one
    if copies:
        shutil.copy(one, other)
    pids = [
        child(lambda data=data, n=n: asks(kind, data, folder, f"question {n}", 1, True))  # type: ignore[misc]
        for n, data in enumerate((one, other))
    ]
    codes = sorted(ended(pid) for pid in pids)
    budgets = list(folder.glob("*.budget"))
    wrong = [] if codes == [0, REFUSED] else [f"ended with {codes}"]
    wrong += [] if len(budgets) == 1 else [f"{len(budgets)} budgets"]
    return {"places": 1, "wrong": wrong}


def main(what: str, folder: str, weakened: str = "") -> None:
    at = Path(folder) / "work"
    if what in ("race", "copies"):
        found = at_once(at, ChecksFirst if weakened else BudgetFile, what == "copies")
    else:
        act = {"kill": kill, "half": half, "full": full}[what]
        found = at_every_write(act, at, ChargesLater if weakened else BudgetFile)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
