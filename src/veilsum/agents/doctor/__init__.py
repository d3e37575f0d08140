"""Everything that can be wrong with an agent before it starts: `veilsum doctor agent.toml`.

    report = doctor.examine("agent.toml")
    report.healthy, [result for result in report.results if result.outcome != "ok"]

A check says what it found, whether that is ok, a warning or a failure, and what to do. Nothing is
released, charged or started, and no reading is shown: what is said of readings are counts. With
`offline` no other machine is contacted.
"""

from veilsum.agents.doctor.examination import DoctorReport, checks, examine
from veilsum.agents.doctor.outcomes import CheckOutcome, CheckResult

__all__ = ["CheckOutcome", "CheckResult", "DoctorReport", "checks", "examine"]
