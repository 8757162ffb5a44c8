"""Visitors without cookies: identified by a daily salted hash, as PostHog does it."""
