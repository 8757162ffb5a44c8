"""How Alembic runs our steps: inside the transaction that storage/migrate.py holds open."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
