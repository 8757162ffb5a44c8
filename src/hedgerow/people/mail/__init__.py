"""Mail to people: a queue in the database, and the texts."""
