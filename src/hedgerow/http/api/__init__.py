"""Endpoints under /api, one file per resource."""
