"""The state database: SQLite or PostgreSQL behind one interface."""
