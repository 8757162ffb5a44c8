"""Events as they are stored and read."""
