"""Alembic migrations, the same for SQLite and PostgreSQL."""
