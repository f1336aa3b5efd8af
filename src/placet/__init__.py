"""Placet, an AI workload execution layer: it decides where a workload runs; it is neither a cloud nor a workflow engine."""

__version__ = "0.1.0"
