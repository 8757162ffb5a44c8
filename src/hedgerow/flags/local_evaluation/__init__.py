"""Flag definitions for SDKs that evaluate flags locally."""
