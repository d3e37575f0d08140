"""The driver of real agents: readings in, messages out, a log and metrics beside."""

from murmura.agent.node.log import Log, Metrics
from murmura.agent.node.node import Node
from murmura.agent.node.readings import Command, Follow, Given, Now, Readings
from murmura.agent.node.site import Site

__all__ = ["Command", "Follow", "Given", "Log", "Metrics", "Node", "Now", "Readings", "Site"]
