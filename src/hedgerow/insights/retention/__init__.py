"""RetentionQuery: how many people come back."""
