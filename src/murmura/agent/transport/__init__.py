"""Ways for messages to travel: in memory, with faults on demand, and over zenoh."""
