"""The driver of real agents: readings in, messages out, a log and metrics beside."""

from murmura.agent.node.log import Log, Metrics
from murmura.agent.node.node import Node, Site
from murmura.agent.node.readings import Command, Follow, Given, Now, Readings

__all__ = ["Command", "Follow", "Given", "Log", "Metrics", "Node", "Now", "Readings", "Site"]
