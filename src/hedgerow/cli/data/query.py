"""`hedgerow query`: run HogQL on the running service."""

import json
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from hedgerow.cli.options import JsonOption, KeyOption, ProjectOption, ServerOption
from hedgerow.cli.output import print_json, print_table
from hedgerow.cli.service_client import connect_service
from hedgerow.events.listing.csv_writer import format_csv_rows

# The most rows that the service returns for a query.
MAX_ROWS = 50_000


class QueryFormat(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def query(
    text: Annotated[str, typer.Argument(help="A HogQL query, or - for standard input.")],
    format: Annotated[
        QueryFormat, typer.Option("--format", "-f", help="Format of the result.")
    ] = QueryFormat.TABLE,
    as_json: JsonOption = False,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """Run a HogQL query on the running service.

    Reads events, persons and groups. Needs a personal API key with the scope query:read.

    Example: hedgerow query "select event, count() from events group by event"
    """
    service = connect_service(server, key, project)
    if text == "-":
        text = sys.stdin.read()
    result = service.query(text)
    columns, rows = result["columns"], result["results"]
    if as_json or format is QueryFormat.JSON:
        print_json({"columns": columns, "results": rows})
    elif format is QueryFormat.CSV:
        sys.stdout.buffer.write(format_csv_rows([columns, *rows]))
        sys.stdout.flush()
    else:
        print_table(columns, [[_format_cell(value) for value in row] for row in rows])
        if not rows:
            print("No rows.", file=sys.stderr)
    if result["hasMore"] and len(rows) == MAX_ROWS:
        print(f"Only the first {MAX_ROWS} rows, the most of any query.", file=sys.stderr)
    elif result["hasMore"] and "limit" not in text.lower():
        print(f"Only the first {len(rows)} rows. Add a LIMIT for more.", file=sys.stderr)


def _format_cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
