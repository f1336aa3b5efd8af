"""What Placet and its clients say to each other: the spec document, the REST shapes, the codes of every refusal.

Nothing is imported here on purpose: clients read ``api`` and ``codes`` without loading the reader of specs.
"""
