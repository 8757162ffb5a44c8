"""Endpoints of what users keep for their questions about events."""
