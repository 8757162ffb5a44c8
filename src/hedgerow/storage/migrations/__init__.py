"""Alembic's steps from an empty database to the present one, the same for SQLite and PostgreSQL."""
