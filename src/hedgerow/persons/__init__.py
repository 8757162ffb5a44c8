"""Persons, groups, cohorts, and how events change them."""
