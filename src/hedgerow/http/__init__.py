"""The HTTP edge: decodes requests, checks access, and encodes responses."""
