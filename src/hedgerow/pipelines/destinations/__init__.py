"""What destinations need: the registry, one delivery attempt, previews, and S3."""
