"""Real servers on loopback: each in a folder of its own, on a free port, ended by its process id."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

SECONDS = 30.0  # until a server answers
SECRET = "hunter2"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def program(name: str, package: str, *places: str) -> str:
    found = next((place for place in places if Path(place).exists()), None) or shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name}: apt-get install {package}")
    return found


class Server:
    """A process that is started, stopped and killed, again and again, on one port."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.log = (folder / "log").open("ab")
        self.options: dict[str, Any] = {}

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command(), stdout=self.log, stderr=self.log, **self.options
        )
        end = time.monotonic() + SECONDS
        while not self.answers():
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.05)

    def answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def end(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def close(self) -> None:
        self.end(signal.SIGKILL)
        self.log.close()


class Mosquitto(Server):
    """A broker with persistence, users, and TLS if it gets a certificate."""

    def __init__(self, folder: Path, tls: Path | None = None) -> None:
        super().__init__(folder)
        self.binary = program("mosquitto", "mosquitto", "/usr/sbin/mosquitto")
        passwords = folder / "passwords"
        subprocess.run(
            [program("mosquitto_passwd", "mosquitto"), "-b", "-c", str(passwords), "meter", SECRET],
            check=True,
            capture_output=True,
        )
        passwords.chmod(0o600)
        lines = [
            f"listener {self.port} 127.0.0.1",
            "allow_anonymous false",
            f"password_file {passwords}",
            "persistence true",
            f"persistence_location {folder}/",
            "autosave_on_changes true",
            "autosave_interval 1",
            "max_queued_messages 10000",
            "user root" if os.geteuid() == 0 else "",
        ]
        if tls is not None:
            lines += [
                f"cafile {tls}/ca.pem",
                f"certfile {tls}/broker.pem",
                f"keyfile {tls}/broker.key",
            ]
        (folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")

    def command(self) -> list[str]:
        return [self.binary, "-c", str(self.folder / "mosquitto.conf")]


class Postgres(Server):
    """A database with passwords; as the user postgres, since root may not run it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
        self.binary = program("postgres", "postgresql", *(f"{p}/postgres" for p in places))
        if os.geteuid() == 0:
            self.options = {"user": "postgres", "group": "postgres", "cwd": folder}
            shutil.chown(folder, "postgres", "postgres")
            shutil.chown(folder / "log", "postgres", "postgres")
        secret = folder / "secret"
        secret.write_text(SECRET)
        secret.chmod(0o644)
        subprocess.run(
            [f"{Path(self.binary).parent}/initdb", "-D", f"{folder}/data", "-U", "meter", "-E", "UTF8",
             "--locale=C", "-A", "scram-sha-256", f"--pwfile={secret}", "--no-sync"],
            check=True, capture_output=True, **self.options,
        )  # fmt: skip

    def command(self) -> list[str]:
        return [
            self.binary, "-D", f"{self.folder}/data", "-p", str(self.port), "-k", str(self.folder),
            "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "max_connections=20",
        ]  # fmt: skip

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://meter@127.0.0.1:{self.port}/postgres"

    def answers(self) -> bool:
        import psycopg

        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def connect(self) -> Any:
        import psycopg

        return psycopg.connect(
            host="127.0.0.1", port=self.port, user="meter", password=SECRET, dbname="postgres",
            connect_timeout=5, autocommit=True,
        )  # fmt: skip
