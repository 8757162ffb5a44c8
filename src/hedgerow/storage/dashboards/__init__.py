"""Saved insights, dashboards, annotations, shared links and kept results."""
