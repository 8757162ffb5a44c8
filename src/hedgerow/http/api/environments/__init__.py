"""Products and their environments."""
