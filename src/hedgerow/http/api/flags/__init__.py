"""Endpoints of feature flags and early access features."""
