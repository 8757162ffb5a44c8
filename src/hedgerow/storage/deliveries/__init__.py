"""The delivery queue of each destination, and what became of its deliveries."""
