"""What users keep for their questions about events."""
