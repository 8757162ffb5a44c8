"""The HTTP server: protocol, gateway, logging, metrics, health and responses."""
