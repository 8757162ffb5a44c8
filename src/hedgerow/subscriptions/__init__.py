"""Subscriptions: an insight or a dashboard as a message with pictures, on a schedule."""
