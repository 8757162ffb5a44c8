"""Alerts and subscriptions."""
