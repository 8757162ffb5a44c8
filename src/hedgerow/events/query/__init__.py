"""Execution of queries over a project's events."""
