"""Makes the files of `baseline/`: a wheel of the first version whose formats are read, and its files.

    python tests/agents/upgrade/make_baseline.py            # in the repository; needs hatchling

COMMIT is checked out (`git archive`) into a temporary folder and built there, with the time stamps of
the commit (SOURCE_DATE_EPOCH), so the wheel is the same bytes every time. The files are then written by
this script as a child process that imports murmura from the wheel and nothing of it from here:

    messages.json       encoded messages of every type, and their fields
    manifest.json       two manifests as JSON, and their digests
    gossip/, masked/    ledgers of agents that were closed, with their spools, locks and keys
    gossip-killed/      the same agents as SIGKILL leaves them: the write-ahead log is there
    facts.json          what the baseline says of each ledger: releases, budget, sessions, neighbours

Run once: the ledgers contain random keys and noise, so another run gives other files.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

COMMIT = "951dd645"
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BASELINE = HERE / "baseline"
DEVICE = b"the secret of a device, for tests"
KEY = b"the key of a ledger, for tests"

GOSSIP = """
network = {graph = "complete:3", weights = "lazy-metropolis"}
family = {name = "normal", sigma = 1.0, bounds = [0.0, 10.0]}
signals = {draw = {mu = 5.0}}
privacy = {protect = "signal", epsilon = 0.25, batches = {growth = 2.0}}
algorithm = {name = "learn", rounds = 40}
"""
MASKED = """
network = {graph = "complete:4"}
family = {name = "normal", sigma = 1.0, bounds = [0.0, 10.0]}
signals = {draw = {mu = 5.0}}
privacy = {protect = "signal", mode = "masked", epsilon = 1.0, colluders = 1}
algorithm = {name = "masked-learn", rounds = 3}
"""
READINGS = {label: [2.0 + k / 8 + int(label) for k in range(40)] for label in "0123"}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(
            f"git -C {ROOT} archive {COMMIT} | tar -x -C {folder}", shell=True, check=True
        )
        stamp = subprocess.run(
            ["git", "-C", str(ROOT), "show", "-s", "--format=%ct", COMMIT],
            capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
        BASELINE.mkdir(exist_ok=True)
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(BASELINE)],
            cwd=folder, check=True, env=os.environ | {"SOURCE_DATE_EPOCH": stamp},
        )  # fmt: skip
        wheel = next(BASELINE.glob("*.whl"))
        installed = folder / "installed"
        shutil.unpack_archive(wheel, installed, "zip")
        subprocess.run(
            [sys.executable, "-W", "error", str(Path(__file__).resolve()), "files"],
            check=True, env=os.environ | {"PYTHONPATH": str(installed)}, cwd=folder,
        )  # fmt: skip


def plain(part: Any) -> Any:
    """A message as JSON takes it."""
    if isinstance(part, bytes):
        return {"hex": part.hex()}
    if isinstance(part, tuple):
        return [plain(each) for each in part]
    return part


def messages() -> dict[str, Any]:
    from murmura.agents import messages as m
    from murmura.agents.wire import encode, encode_status

    status = m.PeerStatus(4, b"r" * 8, b"p" * 8, 12, b"h" * 16, b"s" * 8)
    hello = m.Hello("Medici", "Strozzi", 3, 2, 1, bytes(range(32)), (b"abcdefgh",) * 34, 9, b"t" * 8,
                    b"e" * 8, status, status._replace(start=9), True)  # fmt: skip
    mass = m.CumulativeMass("Medici", "Strozzi", 3, 2, 57, 56, (-(10**30), 0, 7), 10**20,
                            m.RangeReport(1, 2, (3,), (4,), 5), True, True, b"t" * 8, b"e" * 8,
                            b"r" * 8, 12, b"h" * 16, b"s" * 8, b"v" * 8)  # fmt: skip
    register = m.Register(2, 0b101, 0b1110, 0b110, 0b10, 0b1, (0, 3, 300, 7))
    exchange = m.RecordExchange("Medici", "Strozzi", b"r" * 8, 3, 2, True, False, bytes(2048),
                                ((0, b"n" * 16), (7, b"")), b"chunk", b"e" * 8)  # fmt: skip
    sent: list[Any] = [
        hello, m.Hello("a", "b", 1, 0, 1, bytes(32), ()), mass,
        m.CumulativeMass("a", "b", 1, 1, 3, 2, (20,), 4),
        m.Attendance("Medici", "Strozzi", 3, b"r" * 8, register, True),
        m.Attendance("a", "b", 1, b"r" * 8), exchange, m.RecordExchange("a", "b", b"r" * 8, 1),
    ]  # fmt: skip
    seen = m.StatusMessage("Medici", "control-room", 7, '{"state": "läuft"}')
    rows = [[type(one).__name__, plain(one), encode(one).hex()] for one in sent]
    rows.append([type(seen).__name__, plain(seen), encode_status(seen).hex()])
    return {"messages": rows}


def manifests() -> dict[str, Any]:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from murmura.agents.manifest import Manifest
    from murmura.scenario import Scenario

    keys = {str(k): Ed25519PrivateKey.from_private_bytes(bytes([k + 1]) * 32) for k in range(4)}
    pins = {label: key.public_key().public_bytes_raw().hex() for label, key in keys.items()}
    gossip, masked = (Scenario.parse(text).build().problem for text in (GOSSIP, MASKED))
    return {
        "gossip": (Manifest.of(gossip, "gossip", batch_growth=2.0), gossip, {}),
        "masked": (Manifest.of(masked, "masked", nonce="5e" * 16, signing_keys=pins), masked, keys),
    }


def run(folder: Path, made: Any, given: Any, until: Any, killed: Path | None = None) -> None:
    """Agents in one process, over the network in memory, until there is enough; then closed.

    `given` has how many readings the source of each has by now.
    """
    import io
    from itertools import chain, repeat

    from murmura.agents.ledger import Ledger, key_of
    from murmura.agents.protocol import Options
    from murmura.agents.readings import IterableReadings
    from murmura.agents.readings.base import SourceState
    from murmura.agents.release import make_mechanism
    from murmura.agents.runtime import Log, Node
    from murmura.agents.runtime.spool import open_spool
    from murmura.agents.transport.memory import MemoryNetwork
    from murmura.privacy.accounting import Budget

    manifest, problem, keys = made
    network, text = MemoryNetwork(), io.StringIO()
    nodes = []
    for label in manifest.labels:
        options = Options(deadline=0.3, resend=0.05, tick=0.005)
        node = Node(manifest, network.transport(), options=options, log=Log(text, "debug"))
        ledger = Ledger.open(
            folder / f"{label}.ledger", manifest, label, Budget(9.0), device=DEVICE, key=key_of(KEY)
        )
        mechanism = make_mechanism(manifest, problem, label)
        spool = open_spool(ledger, DEVICE, mechanism)
        source = IterableReadings(
            chain(READINGS[label][: given[label]], repeat(SourceState.WAITING))
        )
        more = {"signing_key": keys[label]} if keys else {}
        node.add(label, ledger, mechanism, source, spool, **more)
        node.start()
        nodes.append(node)
    try:
        for _ in range(4000):
            for node in nodes:
                node.run(seconds=0.002)
            if all(until(next(iter(node.agents.values()))) for node in nodes):
                break
        else:
            raise AssertionError(text.getvalue()[-3000:])
        for node in nodes * 20:  # what is on its way arrives
            node.run(seconds=0.002)
        if killed is not None:
            shutil.copytree(folder, killed)
    finally:
        for node in nodes:
            node.close()


def facts(path: Path) -> dict[str, Any]:
    """What a ledger says, by the code that is imported."""
    from murmura.agents.ledger import key_of, read_ledger, verify
    from murmura.agents.ledger.store import Store

    found, checked = read_ledger(path), verify(path, key_of(KEY))
    assert checked.ok, checked.problems
    store = Store(path, read_only=True)
    state, peers, passed = store.state(), store.peers(), list(store.passed())
    store.close()
    status = found.status
    return {
        "format": found.meta["format"],
        "incarnation": found.incarnation,
        "releases": [plain(tuple(entry)) for entry in found.entries],
        "changes": [list(change) for change in found.changes],
        "queries": [plain(tuple(row)) for row in found.queries],
        "sessions": [plain(tuple(row)) for row in found.sessions],
        "passed": [list(row) for row in passed],
        "peers": {name: plain(tuple(known)) for name, (known, _) in sorted(peers.items())},
        "state": "" if state is None else state[0].decode("latin-1"),
        "spool": found.meta["spool"],
        "spent": list(status.spent),
        "remaining": list(status.remaining),
    }


def add_changes(path: Path, manifest: Any) -> None:
    """A changed budget, a restart, and readings that are passed over, as an operator causes them."""
    from murmura.agents.ledger import Ledger, LedgerIdentity, amend, key_of
    from murmura.privacy.accounting import Budget

    identity = LedgerIdentity.of("0", manifest, Budget(12.0), "stream", None)
    amend(path, identity, key_of(KEY), by="ana", reason="a test", allow_raise=True)
    with Ledger.open(path, manifest, "0", Budget(12.0), device=DEVICE, key=key_of(KEY)) as ledger:
        ledger.pass_over(ledger.last_reading, [f"{k:032x}" for k in (1, 2)])


def files() -> None:
    made = manifests()
    (BASELINE / "messages.json").write_text(json.dumps(messages(), indent=1, ensure_ascii=False))
    terms = {name: [m.to_json(), m.digest.hex()] for name, (m, _, _) in made.items()}
    (BASELINE / "manifest.json").write_text(json.dumps(terms, indent=1))
    for name in ("gossip", "gossip-killed", "masked"):
        shutil.rmtree(BASELINE / name, ignore_errors=True)
    for name in ("gossip", "masked"):
        (BASELINE / name).mkdir()
    run(
        BASELINE / "gossip", made["gossip"], dict.fromkeys("012", 10),
        lambda agent: agent.position == 10 and agent.spool.records, BASELINE / "gossip-killed",
    )  # fmt: skip
    run(
        BASELINE / "masked", made["masked"], {"0": 3, "1": 3, "2": 3, "3": 2},
        lambda agent: agent.ledger.releases == 2 and (agent.query == 3 or agent.label == "3"),
    )  # fmt: skip
    add_changes(BASELINE / "gossip" / "0.ledger", made["gossip"][0])
    for path in BASELINE.glob("*/*-shm"):
        path.unlink()
    ledgers = sorted(BASELINE.glob("*/*.ledger"))
    known = {f"{path.parent.name}/{path.name}": facts(copied(path)) for path in ledgers}
    (BASELINE / "facts.json").write_text(json.dumps(known, indent=1))


def copied(path: Path) -> Path:
    """Read elsewhere: reading a ledger with a log leaves an index beside it."""
    folder = Path(tempfile.mkdtemp()) / "copy"
    shutil.copytree(path.parent, folder)
    return folder / path.name


if __name__ == "__main__":
    files() if sys.argv[1:] == ["files"] else main()
