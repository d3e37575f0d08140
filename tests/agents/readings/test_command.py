"""A command as a source: it waits for its reader, its failures are reported, its text never is."""

import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from veilsum.agents.readings import CommandReadings, Pauses, SourceState
from veilsum.errors import SignalError


def python(code: str, **options: Any) -> CommandReadings:
    return CommandReadings([sys.executable, "-c", code], **options)


def drained(readings: CommandReadings, seconds: float = 20.0) -> list[Any]:
    """All readings until the source ends, with its last state."""
    found: list[Any] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = readings.next()
        if value is SourceState.WAITING:
            time.sleep(0.005)
            continue
        found.append(value)
        if isinstance(value, SourceState):
            return found
    raise AssertionError(f"the command did not end: {found[-5:]}")


def test_a_command_that_prints_faster_than_it_is_read_waits(tmp_path: Path) -> None:
    """`yes 50` once filled the memory: 2.9 GB. A pipe has 64 KiB, and we keep 40."""
    progress = tmp_path / "progress"
    readings = python(
        f"import os, itertools\nfor k in itertools.count(1):\n    os.write(1, b'50.0\\n' * 200)\n"
        f"    open({str(progress)!r}, 'w').write(str(k))"
    )
    written = taken = 0
    end = time.monotonic() + 10
    while time.monotonic() < end:
        taken += readings.next() == 50.0
        before, written = written, int((progress.exists() and progress.read_text()) or 0)
        if taken >= 50 and written == before:
            time.sleep(0.2)
            if written == int(progress.read_text() or 0):
                break
    assert taken >= 50
    assert 1000 * written < 200_000
    readings.close()


def test_an_exit_with_zero_is_the_end_and_any_other_a_failure() -> None:
    good = python("print(1.5)")
    assert drained(good) == [1.5, SourceState.END]
    assert good.next() is SourceState.END
    assert good.notices() == []
    bad = python("import sys; print(1.5); print('secret 77.25', file=sys.stderr); sys.exit(3)")
    assert drained(bad) == [1.5, SourceState.FAILED]
    (notice,) = bad.notices()
    assert notice.level == "error"
    assert "exited with code 3 after 1 lines" in notice.text
    assert "13 bytes to standard error" in notice.text
    assert "77.25" not in notice.text
    killed = python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert drained(killed) == [SourceState.FAILED]
    assert f"ended by signal {int(signal.SIGKILL)}" in killed.notices()[0].text


def test_a_keyed_command_that_fails_is_started_again_after_growing_pauses(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    code = (
        f"import sys; open({str(runs)!r}, 'a').write('x'); n = len(open({str(runs)!r}).read())\n"
        "for k in range(n): print(f'{k},{k}.5')\n"
        "sys.exit(n < 3)"
    )
    readings = python(code, keyed=True, pauses=Pauses(0.02, 10.0))
    assert drained(readings) == [0.5, 0.5, 1.5, 0.5, 1.5, 2.5, SourceState.END]
    assert len(readings.notices()) == 2
    readings.close()


def test_a_program_that_disappears_is_waited_for(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nrm $0\necho 1,2.5\nexit 1\n")
    program.chmod(0o700)
    readings = CommandReadings([str(program)], keyed=True, pauses=Pauses(0.02, 0.1))
    found, texts, end = [], "", time.monotonic() + 10
    while "cannot start" not in texts and time.monotonic() < end:
        value = readings.next()
        found += [value] if not isinstance(value, SourceState) else []
        texts += "".join(notice.text for notice in readings.notices())
    assert found == [2.5]
    assert "exited with code 1" in texts
    assert "cannot start" in texts
    readings.close()


def test_text_that_is_not_utf_8_is_reported_by_its_place() -> None:
    readings = python(r"import sys; sys.stdout.buffer.write(b'1.5\n7\xff\xfe\n2.5\n')")
    with pytest.raises(SignalError, match=r"line 2 of .* is not UTF-8 text, at its byte 2"):
        drained(readings)
    assert drained(readings) == [2.5, SourceState.END]


def test_a_line_without_end_takes_no_memory() -> None:
    readings = python("import sys; sys.stdout.write('7' * 5_000_000 + '\\n8\\n')")
    with pytest.raises(SignalError, match=r"line 1 of .* more than 65536 bytes"):
        drained(readings)
    run = readings._run
    assert run is not None
    assert len(run._rest) < 100_000
    assert drained(readings) == [8.0, SourceState.END]


def test_closing_a_command_that_ignores_the_request_and_fills_its_pipe() -> None:
    readings = python(
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: print(5)"
    )
    while readings.next() is SourceState.WAITING:
        time.sleep(0.01)
    run = readings._run
    assert run is not None
    readings.close()
    assert run._process.poll() is not None
    assert not any(thread.is_alive() for thread in run._threads)
