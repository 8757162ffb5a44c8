"""Surveys: questions that a page shows to people whom the survey's flags select."""
