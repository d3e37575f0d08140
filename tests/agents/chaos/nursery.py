"""Forks workers of plans, with all imports done: nursery.py

Reads lines of JSON, [plan, number], from standard input and prints the id of the process that runs
this worker. It ends with its input; its workers end with the pipe that it holds for them.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from veilsum.agents.local_cluster import worker
from veilsum.agents.local_cluster.plan import DeploymentPlan


def work(path: str, number: int, alive: int) -> NoReturn:
    """Be a worker until killed or stopped; its lines of status go to a file."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(alive, 0)
        sys.stdin = os.fdopen(0)
        folder = Path(path).parent
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        os.dup2(os.open(folder / f"status-{number}.jsonl", flags, 0o600), 1)
        os.dup2(os.open(folder / f"stderr-{number}.txt", flags, 0o600), 2)
        worker.Worker(DeploymentPlan.load(path), number).run()
        code = 0
    except BaseException as problem:
        os.write(2, f"{type(problem).__name__}: {problem}\n".encode())
    os._exit(code)


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a worker ended
    alive, held = os.pipe()  # readable when this process ends
    for line in sys.stdin:
        path, number = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.close(held)
            work(path, number, alive)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
