"""Processes that are forked from one that has loaded all modules."""
