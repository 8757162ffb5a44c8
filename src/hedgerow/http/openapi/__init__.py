"""The OpenAPI document and the documentation page."""
