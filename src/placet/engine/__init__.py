"""The use cases and the loop that moves workloads: load, call a stage, call a port, apply. No provider by name."""
