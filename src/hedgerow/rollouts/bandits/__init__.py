"""Bandits: the split of a flag between its variants follows a metric."""
