"""The door for agents over the SDK; it adds no verbs of its own."""
