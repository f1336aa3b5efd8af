"""What the engine asks of the outside, as protocols; never how an adapter answers."""
