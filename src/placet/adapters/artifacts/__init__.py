"""Stores for the bytes of inputs and outputs; they do not know what a workload is."""
