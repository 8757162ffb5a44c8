"""Persons, groups and cohorts, and the queue that replicates them to the event store."""
