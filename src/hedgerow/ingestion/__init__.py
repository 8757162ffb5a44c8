"""Capture events, process them, and bring them to the event store."""
