"""Built-in frontend apps."""
