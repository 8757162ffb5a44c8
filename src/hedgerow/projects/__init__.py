"""Projects, API keys with their scopes, and the activity log."""
