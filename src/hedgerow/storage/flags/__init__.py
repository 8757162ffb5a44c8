"""Feature flags, early access features and the data that flags are evaluated against."""
