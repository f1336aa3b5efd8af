"""Benchmarks, one module each, run by `make bench NAME=...`; they print figures and never pass or fail."""
