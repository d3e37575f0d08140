"""Real agents: the same scenario over a real network."""
