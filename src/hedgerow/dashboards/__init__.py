"""Saved insights, dashboards, annotations, shared links, and the results that are kept for them."""
