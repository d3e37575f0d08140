"""Metrics of a fleet: the numbers of the status, in the text format of Prometheus."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fleet.status.test_status_screen import large
from veilsum.fleet.metrics import GAUGES, PREFIX, exposition, samples, write_metrics

LINE = re.compile(rf'{PREFIX}_[a-z_]+\{{([a-z]+="(\\.|[^"\\])*",?)*\}} -?[0-9.e+-]+')


def test_numbers_are_those_of_the_status() -> None:
    text = exposition([large(50)])
    for line in (
        'veilsum_fleet_question_sites{fleet="north-grid",question="ab12",title="mean of load"} 47',
        'veilsum_fleet_answer{fleet="north-grid",question="ab12",title="mean of load",'
        'quantity="mean of load"} 49.6',
        'veilsum_fleet_site_silent{fleet="north-grid",site="chur"} 1',
        'veilsum_fleet_site_behind_slots{fleet="north-grid",site="sion"} 1',
        'veilsum_fleet_budget_epsilon_spent{fleet="north-grid",source="data"} 0.42',
        'veilsum_fleet_troubles{fleet="north-grid",kind="silent"} 1',
    ):  # fmt: skip
        assert line in text.splitlines()


def test_every_line_has_the_form() -> None:
    status = large(8)
    (question,) = status.questions
    odd = replace(question, title='a "quoted"\\\nname')
    text = exposition([status, replace(status, fleet="south", questions=(odd,))])
    lines = text.splitlines()
    assert all(line.startswith("# ") or LINE.fullmatch(line) for line in lines)
    assert text.endswith("\n")
    heads = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(set(heads)) == len(heads)


def test_every_metric_has_a_help() -> None:
    names = {one.name for one in samples(large(8))}
    assert names <= set(GAUGES)
    assert all(said.endswith(".") for said in GAUGES.values())


def test_a_file_is_replaced_at_once(tmp_path: Path) -> None:
    file = tmp_path / "veilsum.prom"
    write_metrics(file, [large(8)])
    before = file.stat().st_ino
    write_metrics(file, [large(9)])
    assert file.stat().st_ino != before
    assert file.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in tmp_path.iterdir()] == ["veilsum.prom"]
    with pytest.raises(OSError, match="missing"):
        write_metrics(tmp_path / "missing" / "veilsum.prom", [large(8)])
