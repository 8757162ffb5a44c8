"""Clients for systems outside Hedgerow: HTTP, PostgreSQL, files, GeoIP."""
