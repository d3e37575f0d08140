"""A bare exchange: python -m benchmarks.bare PLAN NUMBER ROUNDS SIZE

The same processes, certificates, sessions and links as a local cluster's; in every round each process puts
one message of SIZE bytes on each link to another process and waits for one from each. No agents, no
ledger, no codec: what zenoh itself takes. It prints the seconds of its rounds.
"""

import json
import sys
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path

from veilsum.agents.local_cluster.plan import DeploymentPlan
from veilsum.agents.manifest import Manifest
from veilsum.agents.pki import Authority
from veilsum.agents.transport import zenoh_config as names
from veilsum.agents.transport.zenoh import load_zenoh
from veilsum.agents.transport.zenoh_config import Endpoint, settings


def main() -> None:
    plan, number = DeploymentPlan.load(sys.argv[1]), int(sys.argv[2])
    rounds, size = int(sys.argv[3]), int(sys.argv[4])
    manifest, assignment = Manifest.from_json(plan.manifest), plan.assignments[number]
    home, local = manifest.certificates, set(assignment.agents)
    links = [(a, p) for a in assignment.agents for p in manifest.link_weights(a) if p not in local]
    others = {home[p] for _, p in links}
    keys = Authority.load(Path(plan.folder) / "keys").credentials(assignment.device)
    ends = {s.device: Endpoint.parse(s.endpoint, insecure=False) for s in plan.assignments}
    earlier = [ends[s.device] for s in plan.assignments[:number] if s.device in others]
    chosen = settings(
        manifest.name, assignment.device, [ends[assignment.device]], earlier, others, keys
    )
    zenoh = load_zenoh()
    config = zenoh.Config()
    for key, value in chosen.items():
        config.insert_json5(key, json.dumps(value))
    got: Counter[int] = Counter()
    met: set[str] = set()  # links heard in round 0, which is said more than once
    full = threading.Condition()

    def take(sample: object) -> None:
        data = sample.payload.to_bytes()  # type: ignore[attr-defined]
        t, key = int.from_bytes(data[:4], "big"), str(sample.key_expr)  # type: ignore[attr-defined]
        with full:
            got[t] += 1 if t or key not in met else 0
            met.update([key] if t == 0 else [])
            full.notify()

    def complete(t: int) -> bool:
        return got[t] >= len(links)

    with zenoh.open(config) as session:
        subscriber = session.declare_subscriber(
            f"{names.key_prefix(manifest.name, '*', assignment.device)}/data/**", take
        )
        publishers = [
            session.declare_publisher(
                names.data_key(manifest.name, assignment.device, home[p], a, p),
                congestion_control=zenoh.CongestionControl.BLOCK,
            )
            for a, p in links
        ]
        began = 0.0
        for t in range(rounds + 1):  # round 0 is said again until everybody is there
            while True:
                for publisher in publishers:
                    publisher.put(t.to_bytes(4, "big") + bytes(size - 4))
                with full:
                    enough = full.wait_for(partial(complete, t), timeout=0.2 if t == 0 else 60)
                if enough or t:
                    break
            if t == 0:
                for publisher in publishers:
                    publisher.put((0).to_bytes(4, "big") + bytes(size - 4))
                time.sleep(1.0)
                began = time.perf_counter()
        print(json.dumps({"seconds": time.perf_counter() - began, "links": len(links)}))
        time.sleep(1.0)
        subscriber.undeclare()


if __name__ == "__main__":
    main()
