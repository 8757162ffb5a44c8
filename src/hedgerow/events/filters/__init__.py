"""Property filters, compiled to HogQL conditions."""
