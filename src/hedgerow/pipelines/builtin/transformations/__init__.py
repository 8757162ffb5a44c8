"""Built-in transformations."""
