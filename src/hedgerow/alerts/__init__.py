"""Alerts: bounds on a number of a saved insight, checked on a schedule."""
