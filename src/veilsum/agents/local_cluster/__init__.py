"""A local cluster: real agents in processes of one machine, over real sockets, by one command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from veilsum._lazy import lazily

if TYPE_CHECKING:
    from veilsum.agents.local_cluster.cluster import LaunchOptions, LocalCluster, UpResult, up
    from veilsum.agents.local_cluster.plan import Assignment, DeploymentPlan

_WHERE = {
    "Assignment": "plan",
    "DeploymentPlan": "plan",
    "LaunchOptions": "cluster",
    "LocalCluster": "cluster",
    "UpResult": "cluster",
    "up": "cluster",
}

__all__ = ["Assignment", "DeploymentPlan", "LaunchOptions", "LocalCluster", "UpResult", "up"]

__getattr__ = lazily(__name__, _WHERE)
