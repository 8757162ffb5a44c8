"""Alerts, subscriptions and pictures of charts."""
