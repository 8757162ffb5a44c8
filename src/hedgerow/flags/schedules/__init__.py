"""Changes of flags at a later time."""
