"""Definitions of events and of properties."""
