"""Projects, API keys and the audit trail."""
