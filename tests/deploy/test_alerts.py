"""Every alert fires when it should and not otherwise, by Prometheus' own evaluation (promtool)."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.deploy.rendered import ALERTS, FILES, rules

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool"),
]
NORTH = {"fleet": "f", "agent": "north"}
ONE = '{fleet="f", agent="north"}'
RUNNING = 'veilsum_state{fleet="f", agent="north", state="running"} 1+0x400'
DONE = 'veilsum_state{fleet="f", agent="north", state="done"} 1+0x400'


class AlertCase(NamedTuple):
    """Series, one value a minute, with which an alert fires at a time, and others with which not."""

    fires: list[str]
    quiet: list[list[str]]
    minutes: int
    labels: dict[str, str] = NORTH


def link(state: str, values: str) -> str:
    return f'veilsum_link_state{{fleet="f", agent="north", peer="east", state="{state}"}} {values}'


def one(name: str, values: str) -> str:
    return f"{name}{ONE} {values}"


def stage(name: str) -> str:
    return f'veilsum_session_stage{{fleet="f", agent="north", stage="{name}"}} 1+0x400'


def query(values: str) -> str:
    return f'veilsum_session{{fleet="f", agent="north", number="query"}} {values}'


def readings(outcome: str, values: str) -> str:
    return f'veilsum_readings{{fleet="f", agent="north", outcome="{outcome}"}} {values}'


def budget(spent: float, remaining: float, reserved: float) -> list[str]:
    amounts = {"spent": spent, "remaining": remaining, "reserved": reserved}
    return [one(f"veilsum_epsilon_{k}", f"{v}+0x400") for k, v in amounts.items()]


def info(agent: str, manifest: str) -> str:
    labels = f'fleet="f", agent="{agent}", network="n", manifest="{manifest}"'
    return f"veilsum_agent_info{{{labels}}} 1+0x400"


def estimates(north: float, east: float, width: float) -> list[str]:
    return [
        f'veilsum_{name}{{fleet="f", agent="{agent}", component="0"}} {value}+0x400'
        for name, agent, value in (
            ("estimate", "north", north), ("estimate", "east", east),
            ("half_width", "north", width), ("half_width", "east", width),
        )
    ]  # fmt: skip


def epochs(north: str, east: str) -> list[str]:
    found = zip(("north", "east"), (north, east), strict=True)
    return [f'veilsum_epoch{{fleet="f", agent="{agent}"}} {values}' for agent, values in found]


OTHER_FLEET = 'veilsum_epoch{fleet="g", agent="far"} 9+0x30'
PEER = NORTH | {"peer": "east"}
UP = 'up{job="veilsum", fleet="f", agent="north"}'
CASES = {
    "VeilsumAgentDown": AlertCase(
        [f"{UP} 1 0+0x20"], [[f"{UP} 1+0x20"], [f"{UP} 0 1+0x20"]], 5, NORTH | {"job": "veilsum"}
    ),
    "VeilsumAgentStuck": AlertCase(
        [one("veilsum_status_timestamp_seconds", "0+0x20"), RUNNING],
        [[one("veilsum_status_timestamp_seconds", "0+60x20"), RUNNING],
         [one("veilsum_status_timestamp_seconds", "0+0x20"), DONE]],
        10,
    ),
    "VeilsumNoResult": AlertCase(
        [one("veilsum_result_complete", "0+0x100")],
        [[one("veilsum_result_complete", "1+0x100")], [one("veilsum_result_complete", "0x30 1x70")]],
        70,
    ),
    "VeilsumBelowQuorum": AlertCase(
        [one("veilsum_members_present", "2+0x60"), one("veilsum_quorum", "3+0x60")],
        [[one("veilsum_members_present", "3+0x60"), one("veilsum_quorum", "3+0x60")],
         [one("veilsum_members_present", "2x10 3x50"), one("veilsum_quorum", "3+0x60")]],
        20,
    ),
    "VeilsumTermsDiffer": AlertCase(
        [info("north", "a"), info("east", "b")], [[info("north", "a"), info("east", "a")]], 15,
        {"fleet": "f", "network": "n"},
    ),
    "VeilsumEpochBehind": AlertCase(
        [*epochs("1+0x30", "1x3 2x27"), RUNNING],
        [epochs("2+0x30", "2+0x30"), epochs("1x5 2x25", "2+0x30"), epochs("2+0x30", "2x9 3x20"),
         [*epochs("1+0x30", "2+0x30"), DONE], [*epochs("1+0x30", "1+0x30"), OTHER_FLEET]],
        10,
    ),
    "VeilsumEstimatesApart": AlertCase(
        estimates(10, 20, 4), [estimates(10, 20, 6)], 70, {"fleet": "f", "component": "0"}
    ),
    "VeilsumLinkSilent": AlertCase(
        [link("silent", "1+0x30"), link("open", "0+0x30")],
        [[link("silent", "0+0x30"), link("down", "0+0x30")], [link("down", "1x8 0x20")]],
        15, PEER,
    ),
    "VeilsumAlone": AlertCase(
        [one("veilsum_links_up", "0+0x30")], [[one("veilsum_links_up", "1+0x30")]], 10
    ),
    "VeilsumLinkRefused": AlertCase(
        [link("mismatched", "1+0x30")], [[link("mismatched", "0+0x30"), link("open", "1+0x30")]],
        5, PEER,
    ),
    "VeilsumConflictingReleases": AlertCase(
        ['veilsum_conflicting_releases_total{fleet="f", agent="north", peer="east"} _x3 1+0x30'],
        [['veilsum_conflicting_releases_total{fleet="f", agent="north", peer="east"} 0+0x30']],
        10, PEER,
    ),
    "VeilsumMessagesRefused": AlertCase(
        ['veilsum_messages_refused_total{fleet="f", agent="north", peer="east"} 0+60x60'],
        [['veilsum_messages_refused_total{fleet="f", agent="north", peer="east"} 0+1x60']],
        40, PEER,
    ),
    "VeilsumReadingOld": AlertCase(
        [one("veilsum_last_reading_age_seconds", "7000+60x60"), RUNNING],
        [[one("veilsum_last_reading_age_seconds", "100+0x60"), RUNNING],
         [one("veilsum_last_reading_age_seconds", "7000+60x60"), DONE]],
        30,
    ),
    "VeilsumReadingsRefused": AlertCase(
        [readings("refused", "0x30 1x60")],
        [[readings("refused", "3+0x90")], [readings("released", "0+1x90")]],
        60, NORTH | {"outcome": "refused"},
    ),
    "VeilsumReadingsLost": AlertCase(
        [readings("skipped", "0x30 1x60"), readings("passed-over", "4x90")],
        [[readings("skipped", "1x90"), readings("passed-over", "4x90")],
         [readings("released", "0+1x90")]],
        60,
    ),
    "VeilsumBudgetNearlySpent": AlertCase(
        budget(95, 5, 0), [budget(50, 50, 0), budget(80, 5, 15), budget(1, 1, 0)], 10
    ),
    "VeilsumBudgetSpent": AlertCase(
        budget(100, 0, 0), [budget(99, 1, 0), budget(99, 0, 1)], 10
    ),
    "VeilsumCertificateExpiresSoon": AlertCase(
        [one("veilsum_certificate_days", "29+0x200")],
        [[one("veilsum_certificate_days", "31+0x200")],
         [one("veilsum_certificate_days", "6+0x200")]],
        120,
    ),
    "VeilsumCertificateExpires": AlertCase(
        [one("veilsum_certificate_days", "6+0x30")],
        [[one("veilsum_certificate_days", "8+0x30")]], 20,
    ),
    "VeilsumSessionStuck": AlertCase(
        [stage("sent"), query("5+0x200")],
        [[stage("concluded"), query("5+0x200")], [stage("sent"), query("0+1x200")]], 120,
    ),
}  # fmt: skip


def series(values: list[str]) -> list[dict[str, str]]:
    return [
        {"series": line[: line.rindex("}") + 1], "values": line[line.rindex("}") + 2 :]}
        for line in values
    ]


def expected(rule: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    """What promtool compares: all labels and the texts, with their labels filled in."""
    texts = {
        name: re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda label: labels[label[1]], text)
        for name, text in rule["annotations"].items()
    }
    return {"exp_labels": labels | rule["labels"], "exp_annotations": texts}


def unit_tests(folder: Path, cases: dict[str, AlertCase], text: str = FILES[ALERTS]) -> Path:
    """Write the rules and their unit tests."""
    tests = []
    for rule in rules():
        case = cases[rule["alert"]]
        for values, fires in ((case.fires, True), *((quiet, False) for quiet in case.quiet)):
            asked = {
                "eval_time": f"{case.minutes}m",
                "alertname": rule["alert"],
                "exp_alerts": [expected(rule, case.labels)] if fires else [],
            }
            tests.append(
                {"interval": "1m", "input_series": series(values), "alert_rule_test": [asked]}
            )
    (folder / "alerts.yml").write_text(text)
    file = folder / "tests.yml"
    made = {"rule_files": ["alerts.yml"], "evaluation_interval": "1m", "tests": tests}
    file.write_text(yaml.safe_dump(made, allow_unicode=True))
    return file


def promtool(*words: str) -> tuple[int, str]:
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_there_is_a_case_for_every_alert() -> None:
    assert CASES.keys() == {rule["alert"] for rule in rules()}
    assert all(case.quiet for case in CASES.values())


def test_every_alert_fires_when_it_should_and_not_otherwise(tmp_path: Path) -> None:
    code, said = promtool("test", "rules", str(unit_tests(tmp_path, CASES)))
    assert code == 0, said


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("veilsum_certificate_days < 7\n", "veilsum_certificate_days < 3\n"),
     ("for: 2m", "for: 2h"), ('"silent|down"', '"down"'), ("< 0.1\n", "< 0.01\n"),
     ("+ veilsum_epsilon_reserved < 1e-9", "< 1e-9"), ("[30m])) == 0", "[30m])) >= 0"),
     ("on (fleet) group_left () max by (fleet)", "on () group_left () max"),
     ("(veilsum_epoch <", "(veilsum_epoch <=")],
)  # fmt: skip
def test_a_weakened_rule_would_be_found(tmp_path: Path, right: str, wrong: str) -> None:
    assert right in FILES[ALERTS]
    file = unit_tests(tmp_path, CASES, FILES[ALERTS].replace(right, wrong))
    code, said = promtool("test", "rules", str(file))
    assert code != 0
    assert "FAILED" in said


def test_prometheus_accepts_rules_and_configuration(tmp_path: Path) -> None:
    for path, text in FILES.items():
        if path.startswith("monitoring/"):
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    for words in (
        ("check", "rules", str(tmp_path / ALERTS)),
        ("check", "config", str(tmp_path / "monitoring/prometheus.yml")),
    ):
        code, said = promtool(*words)
        assert code == 0, said
