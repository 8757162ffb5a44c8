"""Actions: named sets of events, defined by steps."""
