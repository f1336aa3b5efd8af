"""A simulated market of rented machines, and policies that choose in it."""
