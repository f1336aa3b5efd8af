"""One module or folder per provider, each translating to our words; providers know nothing of one another."""
