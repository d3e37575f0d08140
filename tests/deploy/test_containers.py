"""Containerfile, compose and Kubernetes: rules of the trade, and that files and names fit together.

No container engine runs these here; docs/deploy.md says what was tried by hand.
"""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs import deploy_files
from tests.deploy.rendered import FILES, ROOT, SITES
from veilsum.agents.fleet import METRICS, Fleet
from veilsum.agents.starter import PORT

CONTAINERFILE = (ROOT / "deploy" / "Containerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(FILES["compose.yaml"])
Instruction = tuple[str, str]


def instructions(text: str) -> list[Instruction]:
    """Keyword and value of each instruction, lines joined and comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    found = [line.partition(" ") for line in joined.splitlines() if line.strip()]
    return [(keyword.upper(), value.strip()) for keyword, _, value in found]


def lint(text: str) -> list[str]:
    """What is wrong with a Containerfile, by rules that hadolint has too."""
    found, every = [], instructions(text)
    bases = dict(
        value.split("=", 1) for keyword, value in every if keyword == "ARG" and "=" in value
    )
    images = [value.split()[0] for keyword, value in every if keyword == "FROM"]
    for image in images:
        name = re.sub(r"\$\{(\w+)\}", lambda arg: bases.get(arg[1], ""), image)
        tag = re.search(r":([^/@]+)(?:@sha256:[0-9a-f]{64})?$", name)
        if tag is None or tag[1] == "latest" or not re.search(r"\d+\.\d+", tag[1]):
            found.append(f"the base {name} has no version")
    last = every[max(k for k, (keyword, _) in enumerate(every) if keyword == "FROM") :]
    users = [value for keyword, value in last if keyword == "USER"]
    if not users or not re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1]):
        found.append("the last user is not a number above 0")
    for keyword, value in every:
        if keyword == "ADD":
            found.append("ADD: use COPY")
        if keyword in ("ENTRYPOINT", "CMD") and not value.startswith("["):
            found.append(f"{keyword} is not a list")
        if keyword == "WORKDIR" and not value.startswith("/"):
            found.append("WORKDIR is relative")
        if keyword in ("ENV", "ARG") and re.search(r"(?i)password|secret|token", value):
            found.append(f"a secret in {keyword}")
        if keyword == "RUN":
            found += run_problems(value)
    for needed in ("HEALTHCHECK", "ENTRYPOINT", "LABEL"):
        if needed not in {keyword for keyword, _ in last}:
            found.append(f"no {needed}")
    if len(images) < 2:
        found.append("one stage: what builds is in the image")
    return found


def run_problems(command: str) -> list[str]:
    found = []
    words = set(shlex.split(command.replace("&&", " ")))
    if "sudo" in words:
        found.append("sudo")
    if words & {"curl", "wget"}:
        found.append("a download without a hash")
    if "apt-get" in words and "/var/lib/apt/lists" not in command:
        found.append("lists of apt are left")
    installs = [part for part in command.split("&&") if "pip install" in part]
    if any(not re.search(r"--require-hashes|--no-index", part) for part in installs):
        found.append("packages without hashes")
    return found


def test_the_containerfile_follows_the_rules() -> None:
    assert lint(CONTAINERFILE) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("python:3.13.7-slim-bookworm", "python"), ("python:3.13.7-slim-bookworm", "python:latest"),
     ("USER 65532:65532", "USER root"), ("USER 65532:65532", "USER 0:0"),
     ("USER 65532:65532\n", ""), ('ENTRYPOINT ["veilsum"]', "ENTRYPOINT veilsum"),
     ("COPY src/", "ADD src/"), (" --require-hashes", ""), ("WORKDIR /fleet", "WORKDIR fleet"),
     ("HOME=/tmp", "TOKEN=x"), ("RUN python3", "RUN apt-get install -y gcc && python3"),
     ("RUN python3", "RUN curl -O http://example.org/x && python3"), ("HEALTHCHECK", "LABEL")],
)  # fmt: skip
def test_the_rules_find_a_mistake(right: str, wrong: str) -> None:
    assert right in CONTAINERFILE
    assert lint(CONTAINERFILE.replace(right, wrong)) != []


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    allowed = set()
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if line.startswith("!"):
            assert (ROOT / line[1:]).exists(), line
            allowed.add(line[1:].rstrip("/"))
    assert "*" in (ROOT / ".dockerignore").read_text().splitlines()
    for keyword, value in instructions(CONTAINERFILE):
        if keyword == "COPY" and "--from" not in value:
            *sources, _ = value.split()
            assert {source.rstrip("/") for source in sources} <= allowed, value
    copied = " ".join(value for keyword, value in instructions(CONTAINERFILE) if keyword == "COPY")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for needed in project["project"]["license-files"]:
        assert needed in copied
    hook = project["tool"]["hatch"]["metadata"]["hooks"]["custom"]["path"]
    assert hook.split("/")[0] + "/" in copied


def test_the_image_has_the_agents_extras_and_no_more() -> None:
    (lock,) = [text for path, text in deploy_files.locks().items() if path.name == "agent.lock"]
    names = set(re.findall(r"^([\w-]+)==", lock, re.M))
    assert {"eclipse-zenoh", "cryptography", "prometheus-client", "starlette", "uvicorn"} <= names
    assert not names & {"scipy", "numba", "pandas", "pyarrow", "matplotlib", "opendp"}
    assert all("--hash=sha256:" in entry for entry in re.split(r"\n(?=\w)", lock))


def test_the_example_is_what_init_writes() -> None:
    made = deploy_files.files()
    stale = [
        str(path) for path, text in made.items() if not path.exists() or path.read_text() != text
    ]
    assert not stale, f"run docs/generate.py: {stale}"
    folders = (ROOT / "deploy" / "example", ROOT / "deploy" / "container")
    there = {path for folder in folders for path in folder.rglob("*") if path.is_file()}
    assert there == set(made)


SERVICE_KEYS = {
    "image", "user", "network_mode", "restart", "read_only", "cap_drop", "security_opt",
    "pids_limit", "mem_limit", "tmpfs", "stop_grace_period", "logging", "command", "environment",
    "volumes", "secrets", "healthcheck", "profiles",
}  # fmt: skip
HEALTH_KEYS = {"test", "interval", "timeout", "start_period", "retries"}


def compose_problems(compose: dict[str, Any]) -> list[str]:
    """What is not as the specification of compose files has it, or not confined."""
    found = [f"unknown table {key}" for key in compose.keys() - {"services", "secrets", "volumes"}
             if not key.startswith("x-")]  # fmt: skip
    named = {name for name, each in compose["volumes"].items() if each == {}}
    for name, service in compose["services"].items():
        found += [f"{name}: unknown key {key}" for key in service.keys() - SERVICE_KEYS]
        confined = (
            service.get("read_only") is True
            and service.get("cap_drop") == ["ALL"]
            and service.get("security_opt") == ["no-new-privileges:true"]
            and service.get("user", "0")[0] != "0"
        )
        if not confined:
            found.append(f"{name}: not confined")
        if re.search(r":latest$|^[^:]+$", service["image"]):
            found.append(f"{name}: image without a version")
        if not service.get("healthcheck", {}).keys() <= HEALTH_KEYS or not service.get(
            "healthcheck"
        ):
            found.append(f"{name}: no health check")
        for secret in service.get("secrets", ()):
            if secret["source"] not in compose["secrets"]:
                found.append(f"{name}: no secret {secret['source']}")
        for volume in service.get("volumes", ()):
            source, target, *mode = volume.split(":")
            if not source.startswith("./") and source not in named:
                found.append(f"{name}: no volume {source}")
            if source.startswith("./") and not source.endswith("/state") and mode != ["ro"]:
                found.append(f"{name}: {source} can be written")
            if not target.startswith("/"):
                found.append(f"{name}: {target} is relative")
    return found


def test_compose_is_well_formed_and_confined() -> None:
    assert compose_problems(COMPOSE) == []
    assert set(COMPOSE["services"]) == {*SITES, "prometheus", "grafana"}
    for name in ("prometheus", "grafana"):
        assert COMPOSE["services"][name]["profiles"] == ["monitoring"]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("read_only: true", "read_only: false"), ("cap_drop: [ALL]", "cap_drop: []"),
     ("no-new-privileges:true", "label:disable"), ("pids_limit", "pid_limit"),
     ("readings.csv:ro", "readings.csv"), ("source: ca,", "source: cb,"),
     ("prom/prometheus:v3.5.0", "prom/prometheus:latest"), ("- grafana:/var", "- graphana:/var"),
     ("user: ${VEILSUM_USER:-65532:65532}", 'user: "0:0"'), ("healthcheck:", "x-healthcheck:")],
)  # fmt: skip
def test_the_compose_rules_find_a_mistake(right: str, wrong: str) -> None:
    assert right in FILES["compose.yaml"]
    assert compose_problems(yaml.safe_load(FILES["compose.yaml"].replace(right, wrong)))


def test_compose_names_files_that_init_writes_or_the_commands_make() -> None:
    signed = r"\./authority/(ca\.pem|signing-keys\.toml)"
    later = rf"{signed}|\./sites/(\w+)/(state|keys/\2\.(pem|key|signing\.key|secret))"
    files = [each["file"] for each in COMPOSE["secrets"].values()]
    for service in COMPOSE["services"].values():
        files += [volume.split(":")[0] for volume in service["volumes"]]
    for file in files:
        if file.startswith("./") and not re.fullmatch(later, file):
            path = file.removeprefix("./")
            assert any(each == path or each.startswith(f"{path}/") for each in FILES), file


def test_agents_of_one_machine_have_different_ports() -> None:
    scraped = yaml.safe_load(FILES["monitoring/prometheus.yml"])["scrape_configs"][0]
    targets = [each["targets"][0] for each in scraped["static_configs"]]
    assert targets == [f"127.0.0.1:{METRICS + k}" for k in range(3)]
    for k, site in enumerate(SITES):
        service = COMPOSE["services"][site]
        assert service["command"][-1] == str(METRICS + k)
        assert f":{METRICS + k}/healthz" in service["healthcheck"]["test"][-1]


def test_labels_that_yaml_takes_for_something_else_stay_text() -> None:
    made = Fleet("no", ("no", "1", "null")).files()
    assert {"no", "1", "null"} <= set(yaml.safe_load(made["compose.yaml"])["services"])
    scraped = yaml.safe_load(made["monitoring/prometheus.yml"])["scrape_configs"][0]
    assert [each["labels"]["agent"] for each in scraped["static_configs"]] == ["no", "1", "null"]
    for site in ("no", "1", "null"):
        for each in yaml.safe_load_all(made[f"sites/{site}/kubernetes.yaml"]):
            labels = each["metadata"].get("labels", {"": ""})
            assert all(isinstance(value, str) for value in labels.values())


def kubernetes(site: str = "north") -> dict[str, Any]:
    far = Fleet("example", tuple(f"{each}=veilsum-{each}:{PORT}" for each in SITES))
    read = yaml.safe_load_all(far.files()[f"sites/{site}/kubernetes.yaml"])
    return {each["kind"]: each for each in read}


def test_kubernetes_is_restricted() -> None:
    """As the profile "restricted" of the pod security standards asks."""
    pod = kubernetes()["StatefulSet"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    for container in (*pod["initContainers"], *pod["containers"]):
        confined = container["securityContext"]
        assert confined["allowPrivilegeEscalation"] is False
        assert confined["readOnlyRootFilesystem"] is True
        assert confined["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
        assert not container["image"].endswith(":latest")
    kinds = {kind for volume in pod["volumes"] for kind in volume.keys() - {"name"}}
    assert kinds <= {"configMap", "emptyDir", "secret", "persistentVolumeClaim"}


def test_kubernetes_parts_fit_together() -> None:
    found = kubernetes()
    assert set(found) == {"Service", "NetworkPolicy", "StatefulSet"}
    spec = found["StatefulSet"]["spec"]
    pod, labels = spec["template"]["spec"], spec["template"]["metadata"]["labels"]
    assert spec["replicas"] == 1  # a ledger has one agent
    assert spec["serviceName"] == found["Service"]["metadata"]["name"]
    assert found["Service"]["spec"]["clusterIP"] == "None"
    for selector in (
        found["Service"]["spec"]["selector"],
        spec["selector"]["matchLabels"],
        found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    claims = {claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]}
    volumes = {volume["name"] for volume in pod["volumes"]} | claims
    ports = {port["name"]: port["containerPort"] for port in pod["containers"][0]["ports"]}
    assert ports == {"links": PORT, "observers": PORT + 1000, "metrics": METRICS}
    for container in (*pod["initContainers"], *pod["containers"]):
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = pod["containers"][0][probe]["httpGet"]
        assert asked["port"] in ports
        assert asked["path"] in ("/healthz", "/readyz")
    allowed = [
        p["port"] for each in found["NetworkPolicy"]["spec"]["egress"] for p in each["ports"]
    ]
    assert PORT in allowed


def test_every_path_that_the_pod_uses_is_made_by_its_first_container() -> None:
    pod = kubernetes()["StatefulSet"]["spec"]["template"]["spec"]
    script = pod["initContainers"][0]["args"][0]
    agent = tomllib.loads(FILES["sites/north/agent.toml"])
    assert "umask 077" in script
    for name in ("agent.toml", agent["readings"]["csv"], "scenario.toml", "links.csv"):
        assert f"/config/{name}" in script
    assert f"sites/north/{Path(agent['ledger']['path']).parent}" in script
    for key in ("ca.pem", "north.pem", "north.key", "north.signing.key", "north.secret"):
        assert f"/secret/{key}" in script
    assert "--keys=/keys" in pod["containers"][0]["args"]
