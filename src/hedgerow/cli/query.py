"""`hedgerow query`: HogQL at the terminal, answered by the running service."""

import json
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from hedgerow.cli.running import KeyOption, ServerOption, ServiceProjectOption, service_of
from hedgerow.cli.tables import show, table
from hedgerow.events.spreadsheet import lines
from hedgerow.hogql.printer import MAX_LIMIT
from hedgerow.lib.text import on_one_line


class Form(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def query(
    text: Annotated[str, typer.Argument(help="A query in HogQL, or - for the standard input.")],
    form: Annotated[
        Form, typer.Option("--format", "-f", help="How to print the answer.")
    ] = Form.TABLE,
    project: ServiceProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """Ask the running service something about events, persons and groups, in HogQL.

    Example: hedgerow query "select event, count() from events group by event"
    """
    service = service_of(server, key, project)
    if text == "-":
        text = sys.stdin.read()
    found = service.query(text)
    columns, rows = found["columns"], found["results"]
    if form is Form.JSON:
        print(json.dumps({"columns": columns, "results": rows}, ensure_ascii=False))
    elif form is Form.CSV:
        sys.stdout.buffer.write(lines([columns, *rows]))
        sys.stdout.flush()
    else:
        shown = table(*columns)
        for row in rows:
            shown.add_row(*map(_shown, row))
        show(shown)
    if found["hasMore"] and len(rows) == MAX_LIMIT:
        print(f"The first {MAX_LIMIT} rows: no query gives more.", file=sys.stderr)
    elif found["hasMore"] and "limit" not in text.lower():
        print(f"The first {len(rows)} rows. End the query with LIMIT for more.", file=sys.stderr)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return on_one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
