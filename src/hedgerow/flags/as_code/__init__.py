"""Flags as code: export flags to a document, and apply a document."""
