"""Built-in destinations."""
