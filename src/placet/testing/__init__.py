"""Conformance suites and the simulated world, shipped for adapter authors; never imported by the product."""
