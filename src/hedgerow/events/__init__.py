"""Stored events: model, filters, listing, queries and deletion."""
