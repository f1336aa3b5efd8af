"""The command line, a client of the same HTTP door as everybody; it holds no logic of the core."""
