"""Feature flags: definitions, evaluation, local evaluation, flags as code."""
