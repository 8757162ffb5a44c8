"""PathsQuery: where people go from one page or event to the next."""
