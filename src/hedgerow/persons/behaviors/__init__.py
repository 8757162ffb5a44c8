"""Behavioral filters of cohorts: what persons did, when, and how often."""
