"""FunnelsQuery: how many people get from step to step."""
