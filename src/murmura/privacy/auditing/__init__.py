"""Audits: attacks on mechanisms, and what they prove."""

from __future__ import annotations

from murmura.privacy.auditing.audit import AuditReport, audit

__all__ = ["AuditReport", "audit"]
