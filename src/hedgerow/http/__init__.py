"""The edge towards clients: bytes become our types here, once, and our answers become bytes."""
