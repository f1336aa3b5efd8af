"""Recorded spot availability, a simulator of one workload on it, and the policies it is compared with."""
