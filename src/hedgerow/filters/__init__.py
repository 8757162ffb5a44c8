"""Filters on properties: flags, cohorts and pipelines ask the same questions the same way."""
