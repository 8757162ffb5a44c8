"""Deliveries of events to destinations: routing, the delivery loop, retries and health."""
