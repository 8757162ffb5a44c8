"""Commands for projects, keys, and definitions as code (flags, pipelines)."""
