"""Rows that one process works on, until a time in the row."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement


def is_free(
    claimed_until: ColumnElement[Any], now: datetime, ahead: datetime
) -> ColumnElement[bool]:
    """Whether no process has claimed the row. A claim beyond `ahead` was written before the clock
    was set back, and does not count."""
    return claimed_until.is_(None) | (claimed_until <= now) | (claimed_until > ahead)
