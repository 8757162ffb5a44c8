"""Pipeline configuration records: which component a project uses, in which order, and how."""
