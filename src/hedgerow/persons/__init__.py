"""Persons, the groups they belong to, and cohorts of them."""
