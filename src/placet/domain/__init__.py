"""Plain frozen values and the table of moves; no I/O, no clock, no chance, no wire format."""
