"""Authentication: personal, secret and project API keys, scopes and rate limits."""
