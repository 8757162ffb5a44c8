"""Queries that somebody asks for, in HogQL or as an EventsQuery: kept, awaited or cancelled."""
