"""Transports for messages between agents: in memory with fault injection, and over zenoh."""
