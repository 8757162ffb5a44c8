"""Builds processes from settings: stores, domain services, HTTP application, background tasks."""
