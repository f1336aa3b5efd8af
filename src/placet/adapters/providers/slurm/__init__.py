"""A Slurm cluster as a provider of compute. Nothing is loaded before a server has one: ``making`` makes it."""
