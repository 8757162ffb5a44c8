"""The inbox of an edge process: captured requests that wait for the origin, on its disk."""
