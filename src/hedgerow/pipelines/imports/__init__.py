"""Imports: sources, rows, mapping to events, the import job and its schedule."""
