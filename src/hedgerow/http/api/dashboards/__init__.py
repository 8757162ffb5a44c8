"""Saved insights, dashboards, annotations and shared links."""
