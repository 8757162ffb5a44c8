"""The web console: its shell and its files."""
