"""How often the process of a job has died, how long the job has made no progress, and until when it
waits.

Revision ID: 0044
Revises: 0043
"""

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"

Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    crashes = sa.Column("crashes", sa.Integer, nullable=False, server_default="0")
    op.add_column("pipeline_jobs", crashes)
    stalled = sa.Column("stalled_s", sa.Float, nullable=False, server_default="0")
    op.add_column("pipeline_jobs", stalled)
    op.add_column("pipeline_jobs", sa.Column("run_after", Moment, nullable=True))
