"""Pipeline records, their components, jobs and imports."""
