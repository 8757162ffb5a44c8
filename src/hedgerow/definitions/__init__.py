"""Definitions of events and properties: names that were seen, their details, and schemas."""
