"""The commands, one function each; what is heavy is imported when a command runs."""
