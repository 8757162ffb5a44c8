"""Evaluate flags: compile definitions once, then decide without I/O where possible."""
