"""Events and person replicas in ClickHouse: a server, or chDB in this process."""
