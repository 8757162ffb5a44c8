"""Built-in import apps."""
