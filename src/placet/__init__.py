"""Placet, an AI workload execution layer: it decides where a workload runs; it is no cloud and no workflow engine."""

__version__ = "0.1.0"
