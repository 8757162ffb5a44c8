"""Reads the state database directly, without Hedgerow."""

import sqlite3
from contextlib import closing
from typing import Any, LiteralString

import psycopg

from tests.support.live import Installation


def fetch_rows(installation: Installation, sql: LiteralString) -> list[tuple[Any, ...]]:
    url = installation.settings.get("database_url")
    if url is None:
        with closing(sqlite3.connect(installation.data / "hedgerow.db")) as connection:
            return connection.execute(sql).fetchall()
    with psycopg.connect(url) as postgres:
        return postgres.execute(sql).fetchall()


def change_rows(installation: Installation, *statements: LiteralString) -> None:
    url = installation.settings.get("database_url")
    if url is None:
        with closing(sqlite3.connect(installation.data / "hedgerow.db")) as connection, connection:
            for sql in statements:
                connection.execute(sql)
        return
    with psycopg.connect(url) as postgres:
        for sql in statements:
            postgres.execute(sql)
