"""The command line: one thin file per verb over the library.

Exit codes: 0 success; 1 the run failed; 2 wrong usage, a wrong scenario or a missing file; 130
interrupted.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    from murmura.cli.guard import discard_closed_stdout

    try:
        from murmura.cli.app import app

        app()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    finally:
        discard_closed_stdout()
