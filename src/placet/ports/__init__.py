"""What the engine asks of the outside world, as Protocols; no implementation stands here."""
