"""Every column of every table, found in the schema: a change of any of them is noticed."""

import itertools
import sqlite3
from typing import Any

import pytest

from tests.agents.ledger.session_world import Steps, a_sum, made_terms
from veilsum.agents.ledger import Ledger, records, verify
from veilsum.agents.ledger.maintenance import amend
from veilsum.agents.ledger.store import Store
from veilsum.agents.messages import PeerStatus
from veilsum.errors import LedgerError
from veilsum.privacy import Budget

KEY = b"k" * 32
KINDS = ("local", "masked")
SESSIONS = ("queries", "sessions")


def release_some(ledger: Any) -> None:
    from tests.agents.ledger.conftest import COST, Draw

    for k in (1, 2):
        ledger.charge(k, k, COST, Draw(), f"{k}" * 32)
    ledger.charge(3, 3, COST, Draw(), ["c" * 32, "d" * 32], readings=2, last=4)
    ledger.pass_over(5, ["5" * 32])
    ledger.pass_over(7, ["6" * 32, "7" * 32])


def ask_some(ledger: Any, manifest: Any) -> None:
    """Queries in every stage that there is: with a sum, a refund, passed over, prepared."""
    terms = made_terms(manifest)
    sessions = ledger.sessions(terms)
    first = Steps(sessions, terms, 1).begin(last=2, readings=2, origins=("1" * 32, "2" * 32))
    first.open().prepare(7).withdraw().sent(0, 1)
    first.refund()
    first.reinstate()
    first.refund()
    first.sent(1)
    sessions.conclude_query(1, "sum", a_sum(1, 1))
    Steps(sessions, terms, 2).begin(last=3, origins=("3" * 32,)).open()
    sessions.conclude_query(2, "views", None)
    Steps(sessions, terms, 4).begin(last=4, origins=("4" * 32,)).open().prepare(1, 2**63).ready()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: Any) -> Any:
    """The bytes of closed ledgers that have a row in every table, sealed or not."""
    from tests.agents.ledger.conftest import make_problem
    from veilsum.agents.manifest import Manifest

    found = {}
    terms = Manifest.of(make_problem(), "town")
    for kind, key in itertools.product(KINDS, (KEY, None)):
        path = tmp_path_factory.mktemp("ledger") / "a.ledger"
        with Ledger.open(path, terms, "0", Budget(2.0), key=key) as ledger:
            ledger.set_naming("a key")
            if kind == "masked":
                ask_some(ledger, terms)
            else:
                release_some(ledger)
            ledger.save(b"the mixing state", 3)
            ledger.save_peers({"1": PeerStatus(2, b"12345678", b"proof", 1, b"head", b"seal")})
            less = ledger.identity._replace(epsilon=1.5)
        amend(path, less, key, by="tests")
        found[kind, key] = path.read_bytes()
    return found


def place(tmp_path: Any, filled: Any, key: Any, kind: str = "local") -> Any:
    path = tmp_path / "a.ledger"
    path.write_bytes(
        filled[kind, key]
    )  # alone: without the lock file that would betray some changes
    assert verify(path, key).ok
    return path


def columns(path: Any) -> list[tuple[str, str]]:
    """(table, column) of all that the file contains."""
    db = sqlite3.connect(path)
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = [(t, row[1]) for t in tables for row in db.execute(f"PRAGMA table_info({t})")]
    db.close()
    return found


def tamper(path: Any, statement: str, *values: Any) -> bool:
    """Whether the schema let it happen."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA synchronous = OFF")
    try:
        db.execute(statement, values)
        db.commit()
        return True
    except sqlite3.IntegrityError:
        return False
    finally:
        db.close()


def others(value: Any) -> Any:
    """Another value of the same type, and one that is empty or zero."""
    if isinstance(value, bytes):
        return value[::-1] + b"x", b""
    if isinstance(value, str):
        flipped = "1" if value == "0" else "0"
        return flipped, f"{value}1", ""
    return value + 1, 0


def every_change(
    tmp_path: Any, filled: Any, key: Any, tables: str = "", kind: str = "local"
) -> Any:
    """(what, whether it is noticed) for each value of each row."""
    path = place(tmp_path, filled, key, kind)
    db = sqlite3.connect(path)
    rows = {
        (table, column): db.execute(f"SELECT {column} FROM {table}").fetchall()
        for table, column in columns(path)
        if table.startswith(tables) and ((table in SESSIONS) <= (kind == "masked"))
    }
    db.close()
    assert all(rows.values()), "a table without a row shows nothing"
    for (table, column), values in rows.items():
        for at, (value,) in enumerate(values):
            for other in others(value):
                if other == value:
                    continue
                path.write_bytes(filled[kind, key])
                where = (
                    f"{column} = ? AND (SELECT count(*) FROM {table} b WHERE b.{column} = ?) > 0"
                )
                first = table in ("meta", "origins", "peers")
                given: tuple[Any, ...]
                pick = where if first else f"rowid = {at + 1}"
                given = (other, value, value) if first else (other,)
                if table == "meta" and column == "value":
                    (name,) = rows[table, "name"][at]
                    pick, given = "name = ?", (other, name)
                if tamper(path, f"UPDATE {table} SET {column} = ? WHERE {pick}", *given):
                    yield f"{table}.{column} row {at}: {value!r} -> {other!r}", notices(path, key)


def notices(path: Any, key: Any) -> bool:
    try:
        return not verify(path, key).ok
    except LedgerError:  # another format
        return True


@pytest.mark.parametrize("key", [KEY, None], ids=["sealed", "without a key"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_value_of_every_column_is_covered(
    tmp_path: Any, filled: Any, key: Any, kind: str
) -> None:
    parts = ("",) if kind == "local" else ("queries", "sessions", "releases", "changes")
    found: dict[str, bool] = {}
    for part in parts:
        found |= every_change(tmp_path, filled, key, part, kind)
    missed = [what for what, noticed in found.items() if not noticed]
    assert not missed, "\n".join(missed)
    expected = {
        "meta.name",
        "releases.time",
        "origins.seq",
        "passed.origin",
        "changes.by",
        "peers.run",
        "state.round",
    }
    if kind == "masked":
        expected = {
            "changes.now",
            "queries.summed",
            "sessions.words",
            "sessions.gamma",
            "releases.attempt",
        }
    assert expected <= {what.split(" ")[0] for what in found}
    assert len(found) > 120


@pytest.mark.parametrize("key", [KEY, None], ids=["sealed", "without a key"])
@pytest.mark.parametrize(
    "table", ["meta", "releases", "origins", "passed", "changes", "peers", "state", *SESSIONS]
)
def test_deleted_and_added_rows_are_noticed(
    tmp_path: Any, filled: Any, key: Any, table: str
) -> None:
    kind = "masked" if table in (*SESSIONS, "changes") else "local"
    path = place(tmp_path, filled, key, kind)
    db = sqlite3.connect(path)
    made = db.execute(f"SELECT * FROM {table}").fetchall()
    name = db.execute(f"PRAGMA table_info({table})").fetchone()[1]
    db.close()
    for row in made:
        path.write_bytes(filled[kind, key])
        assert tamper(path, f"DELETE FROM {table} WHERE {name} = ?", row[0])
        assert notices(path, key), f"{table}: {row[0]!r} was deleted"
    path.write_bytes(filled[kind, key])
    more = ["zz" if isinstance(v, str) else v + 7 if isinstance(v, int) else v for v in made[-1]]
    if tamper(path, f"INSERT INTO {table} VALUES ({', '.join('?' * len(more))})", *more):
        assert notices(path, key), f"{table}: a row was added"
    else:
        assert table == "state"  # the schema allows one


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON releases BEGIN DELETE FROM origins; END",
        "CREATE TABLE more (x)",
        "DROP TABLE origins",
        "CREATE VIEW v AS SELECT 1",
    ],
)
def test_a_table_or_trigger_that_does_not_belong_is_noticed(
    tmp_path: Any, filled: Any, statement: str
) -> None:
    path = place(tmp_path, filled, None)
    assert tamper(path, statement)
    assert not verify(path).ok


def test_the_test_sees_a_field_without_cover(tmp_path: Any, filled: Any, monkeypatch: Any) -> None:
    def narrow(key: Any, meta: Any) -> Any:
        kept = {name: meta[name] for name in meta if name not in ("boot", "starts")}
        return usual(key, kept)

    usual = records.seal
    monkeypatch.setattr(records, "seal", narrow)
    with pytest.raises(AssertionError):
        place(tmp_path, filled, KEY)  # sealed over all of them
    path = tmp_path / "a.ledger"
    store = Store(path)
    store.put_meta(seal=narrow(KEY, store.meta()))
    store.close()
    weak = {("local", KEY): path.read_bytes()}
    missed = {what for what, noticed in every_change(tmp_path, weak, KEY, "meta") if not noticed}
    assert len(missed) == 6  # three other values of each of the two fields, by name


@pytest.mark.parametrize("table", SESSIONS)
def test_the_test_sees_a_table_without_cover(tmp_path: Any, monkeypatch: Any, table: str) -> None:
    def narrow(name: str, row: Any) -> str:
        blank = (*row[:3], 0, *row[4:])  # a column of either table
        return usual(name, blank if name.startswith(table[:4]) else row)

    usual = records.row_hash
    path = tmp_path / "weak.ledger"
    monkeypatch.setattr("veilsum.agents.ledger.session_rows.row_hash", narrow)
    from tests.agents.ledger.conftest import make_problem
    from veilsum.agents.manifest import Manifest

    terms = Manifest.of(make_problem(), "town")
    with Ledger.open(path, terms, "0", Budget(2.0)) as ledger:
        ask_some(ledger, terms)
    weak = {("masked", None): path.read_bytes()}
    found = every_change(tmp_path, weak, None, table, "masked")
    assert [what for what, noticed in found if not noticed]
