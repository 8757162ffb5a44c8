"""Feature flags: what they are, and what a person gets."""
