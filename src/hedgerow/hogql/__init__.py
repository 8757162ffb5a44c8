"""HogQL: read, understood and written as SQL for the event store."""
