"""The HTTP side of the service: its endpoints, and the server in front of them."""
