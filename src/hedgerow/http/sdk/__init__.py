"""Endpoints that SDKs and web pages call."""
