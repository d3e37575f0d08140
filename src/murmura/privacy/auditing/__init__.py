"""Audits: attacks on mechanisms, and what they prove."""

from __future__ import annotations

from murmura.privacy.auditing.audit import AuditReport, audit
from murmura.privacy.auditing.power import FAULT, runs_for, smallest_fault

__all__ = ["FAULT", "AuditReport", "audit", "runs_for", "smallest_fault"]
