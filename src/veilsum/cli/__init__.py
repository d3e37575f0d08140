"""The command line: one thin file per verb over the library.

Exit codes: 0 success; 1 the run failed; 2 wrong usage, a wrong scenario or a missing file; 3 an
agent has no result, or one below its quorum; 130 interrupted; 143 ended by SIGTERM.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    from veilsum.cli.guard import discard_closed_stdout

    try:
        from veilsum.cli.app import app

        app()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        _leave(130)
        sys.exit(130)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            _leave(end.code or 0)
        raise
    finally:
        discard_closed_stdout()


def _leave(code: int) -> None:
    """End at once where that is needed: see `veilsum.agents.transport.ending`."""
    if "zenoh" in sys.modules:
        from veilsum.agents.transport.ending import leave
        from veilsum.cli.guard import discard_closed_stdout

        discard_closed_stdout()
        leave(code)
