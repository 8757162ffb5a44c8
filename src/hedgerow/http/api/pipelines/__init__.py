"""Endpoints of pipeline records and components."""
