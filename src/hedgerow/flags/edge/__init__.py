"""Complete flag definitions for edge processes, which evaluate flags beside the service."""
