"""Flags and persons as they were at an earlier time."""
