"""One process with three agents, of which the first reads a server; it may kill itself in a commit.

    python agent_process.py FOLDER SOURCE.json COUNT STAGE TIMES

With STAGE ("checked", "drawn", "written", "committed") the process ends by SIGKILL when the ledger
reaches that stage of a charge for the TIMES-th time.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.agents.readings.released import run_agents
from veilsum.agents.readings import MqttReadings, Pauses, Readings, SqlReadings

PAUSES = Pauses(1.0, 1.0)
KINDS: dict[str, Any] = {"mqtt": MqttReadings, "sql": SqlReadings}


def source(text: str) -> Readings:
    kind, arguments, options = json.loads(text)
    made: Readings = KINDS[kind](*arguments, **options, pauses=PAUSES)
    return made


def main() -> None:
    folder, described, count, stage, times = sys.argv[1:]
    left = [int(times)]

    def probe(reached: str) -> None:
        if reached == stage:
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def enough(released: int) -> bool:
        progress.write_text(str(released))
        return released >= int(count)

    progress = Path(folder) / "progress"
    readings = source(Path(described).read_text())
    log = run_agents(Path(folder), readings, enough, 60, probe=probe)
    with (Path(folder) / "agents.log").open("a") as file:
        file.write(log)


if __name__ == "__main__":
    main()
