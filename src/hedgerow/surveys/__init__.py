"""Surveys: questions that a page shows to those whom their flags let through."""
