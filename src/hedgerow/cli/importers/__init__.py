"""Commands that import files and the projects of other services."""
