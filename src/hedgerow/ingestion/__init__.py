"""Events on their way in: read, checked, dated, put on disk, then given their persons."""
