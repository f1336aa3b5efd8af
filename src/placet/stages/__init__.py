"""The decisions of the line as pure functions, one module per step; nothing here acts on the world."""
