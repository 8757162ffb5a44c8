"""Transformations of events before they are stored: chains, registry, sandbox and preview."""
