"""The runner for machines that are not ours: one file, any Python from 3.8 on, one attempt, told by files."""
