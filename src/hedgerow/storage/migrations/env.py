"""Alembic environment: runs migrations in the transaction that `apply.py` opened."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
