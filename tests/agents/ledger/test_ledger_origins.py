"""A release belongs to what was read, not to a number: the same reading is never drawn again."""

import sqlite3
from typing import Any

import pytest

from tests.agents.ledger.test_budget_calendar import lines_of, steps_of
from veilsum.agents.ledger import Ledger, ReadingOrigin, read_ledger, verify
from veilsum.agents.ledger.records import OriginHasher, derive
from veilsum.agents.pki import Authority
from veilsum.errors import AgentError, LedgerError

DEVICE = bytes(range(32))


def test_a_key_that_was_released_is_given_again_under_any_number(
    open_ledger: Any, draw: Any, cost: Any
) -> None:
    ledger = open_ledger()
    name = ledger.hash_origin(ReadingOrigin("2024-05-01", keyed=True), 1)
    first = ledger.charge(1, 1, cost, draw, name)
    assert ledger.hash_origin(ReadingOrigin("2024-05-01", keyed=True), 7) == name
    assert ledger.charge(7, 7, cost, draw, name) == first
    assert (draw.calls, ledger.releases, ledger.spent.epsilon) == (1, 1, 0.25)
    ledger.close()
    again = open_ledger()
    assert again.charge(3, 3, cost, draw, name) == first
    assert draw.calls == 1


def test_another_row_under_a_released_number_is_refused_before_drawing(
    open_ledger: Any, draw: Any, cost: Any
) -> None:
    """It used to be taken for the row that was released: its number was all that was known."""
    ledger = open_ledger()
    ledger.charge(1, 1, cost, draw, ledger.hash_origin(ReadingOrigin("1,2.5"), 1))
    with pytest.raises(LedgerError, match="another reading under number 1") as caught:
        ledger.charge(1, 1, cost, draw, ledger.hash_origin(ReadingOrigin("1,777.25"), 1))
    assert "777" not in str(caught.value)
    assert draw.calls == 1


def test_equal_rows_at_different_places_are_different_readings(
    open_ledger: Any, draw: Any, cost: Any
) -> None:
    ledger = open_ledger()
    for reading in (1, 2, 3):
        name = ledger.hash_origin(ReadingOrigin("2.5"), reading)
        ledger.charge(reading, reading, cost, draw, name)
    assert draw.calls == 3


def test_names_differ_by_key_agent_kind_and_place() -> None:
    made = [
        OriginHasher(DEVICE, "0").hash(ReadingOrigin("2.5"), 1),
        OriginHasher(DEVICE, "0").hash(ReadingOrigin("2.5"), 2),
        OriginHasher(DEVICE, "0").hash(ReadingOrigin("2.5", keyed=True), 1),
        OriginHasher(DEVICE, "1").hash(ReadingOrigin("2.5"), 1),
        OriginHasher(DEVICE[::-1], "0").hash(ReadingOrigin("2.5"), 1),
    ]
    assert len(set(made)) == len(made)
    assert {len(name) for name in made} == {32}
    assert OriginHasher(DEVICE, "0").hash(None, 1) == ""
    assert derive(DEVICE, "proofs of messages", "0") != derive(DEVICE, "origins of readings", "0")
    assert "secret" not in repr(ReadingOrigin("secret"))


def test_a_device_key_survives_the_loss_of_the_ledger(open_ledger: Any) -> None:
    """With it a new ledger recognises what was said, and names readings as the lost one did."""
    one, two = open_ledger("a.ledger", device=DEVICE), open_ledger("b.ledger", device=DEVICE)
    assert one.secret == two.secret
    assert one.hash_origin(ReadingOrigin("x"), 1) == two.hash_origin(ReadingOrigin("x"), 1)
    assert open_ledger("c.ledger").secret != open_ledger("d.ledger").secret


@pytest.mark.parametrize("other", [None, DEVICE[::-1]])
def test_the_wrong_device_key_is_refused(open_ledger: Any, other: Any) -> None:
    open_ledger(device=DEVICE).close()
    with pytest.raises(LedgerError, match=r"restore NAME\.secret"):
        open_ledger(device=other)
    open_ledger(device=DEVICE).close()


def test_a_ledger_begun_without_a_device_key_goes_on_with_one(open_ledger: Any) -> None:
    first = open_ledger()
    name = first.hash_origin(ReadingOrigin("x"), 1)
    first.close()
    assert open_ledger(device=DEVICE).hash_origin(ReadingOrigin("x"), 1) == name


def test_a_renewed_certificate_keeps_the_secret_and_a_new_key_changes_it(tmp_path: Any) -> None:
    authority = Authority.create(tmp_path / "keys")
    before = authority.issue("north", days=1).secret()
    assert authority.issue("north", days=2, renew=True).secret() == before
    assert authority.issue("north", days=2, force=True).secret() != before
    credentials = authority.credentials("north")
    credentials.key.write_bytes(b"nonsense")
    with pytest.raises(AgentError, match="cannot be read"):
        credentials.secret()


def test_an_origin_is_part_of_the_chain(
    open_ledger: Any, draw: Any, cost: Any, tmp_path: Any
) -> None:
    ledger = open_ledger()
    ledger.charge(1, 1, cost, draw, ledger.hash_origin(ReadingOrigin("x"), 1))
    ledger.close()
    assert read_ledger(tmp_path / "a.ledger").entries[0].origins
    db = sqlite3.connect(tmp_path / "a.ledger")
    db.execute("UPDATE releases SET origins = ''")
    db.commit()
    db.close()
    assert "breaks the chain" in verify(tmp_path / "a.ledger").problems[0]


def test_a_ledger_that_goes_by_numbers_alone_is_caught(
    open_ledger: Any, draw: Any, cost: Any
) -> None:
    class ByNumber(Ledger):
        def charge(self, reading: Any, round: Any, cost: Any, draw: Any, *_more: Any) -> Any:
            return super().charge(reading, round, cost, draw)

    with pytest.raises(AssertionError):
        test_a_key_that_was_released_is_given_again_under_any_number(
            lambda: open_ledger(kind=ByNumber), draw, cost
        )


def test_a_reading_that_was_passed_over_is_recognised_and_never_charged(
    open_ledger: Any, draw: Any, cost: Any
) -> None:
    ledger = open_ledger()
    ledger.charge(1, 1, cost, draw, "a" * 32)
    ledger.pass_over(3, ["b" * 32, "", "c" * 32, "b" * 32])
    for _ in range(2):
        ledger.pass_over(2, ["c" * 32])  # known: nothing changes
        assert [ledger.has_origin(name * 32) for name in "abcd"] == [True, True, True, False]
        assert [ledger.was_passed_over(name * 32) for name in "abcd"] == [False, True, True, False]
        assert ledger.last_reading == 3
        for origins, readings in (("b" * 32, 1), (["d" * 32, "c" * 32], 2)):
            with pytest.raises(LedgerError, match="has passed over 1 of the readings"):
                ledger.charge(9, 9, cost, draw, origins, readings=readings, last=9)
        assert (ledger.releases, draw.calls) == (1, 1)
        ledger.close()
        assert verify(ledger.path).ok
        ledger = open_ledger()


def test_the_200th_reading_is_passed_over_in_as_many_operations_as_the_10th(
    open_ledger: Any,
) -> None:
    ledger, found = open_ledger(), []
    ledger._writer.store.wait_for_disk = lambda _: None
    ledger._writer.store.db.execute("PRAGMA synchronous = OFF")
    for number in range(1, 202):

        def work(number: int = number) -> None:
            ledger.pass_over(number, [f"{number:032x}"])

        if number in (11, 201):
            lines: list[int] = []
            steps = steps_of(ledger, lambda work=work, lines=lines: lines.append(lines_of(work)))
            found.append((steps, *lines))
        else:
            work()
    assert min(found[0]) > 20
    assert all(later <= 1.3 * early for early, later in zip(*found, strict=True))


def test_a_ledger_opens_only_with_all_that_was_passed_over(open_ledger: Any) -> None:
    ledger = open_ledger()
    ledger.pass_over(2, ["a" * 32, "b" * 32])
    ledger.close()
    db = sqlite3.connect(ledger.path)
    db.execute("DELETE FROM passed WHERE number = 2")
    db.commit()
    db.close()
    with pytest.raises(LedgerError, match="passed over was removed, added or modified"):
        open_ledger()
