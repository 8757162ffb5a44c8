"""Commands for events, queries, dead letters and experiments."""
