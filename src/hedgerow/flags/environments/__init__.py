"""Flags in the environments of a product: compare them, and promote them."""
