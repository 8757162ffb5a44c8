"""Hedgerow's own state. Domain packages declare Protocols; the classes here implement them."""
