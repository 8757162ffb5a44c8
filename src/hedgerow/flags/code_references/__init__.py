"""References to flags in source code."""
