"""Use cases, duties and the one door for state; it asks stages for decisions and makes none itself."""
