"""Captured events on their way to the event store."""
