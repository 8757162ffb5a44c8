"""`hedgerow query`: run HogQL on the running service."""

import json
import math
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from hedgerow.cli.charts import ChartOption, ChartSeries, draw_chart
from hedgerow.cli.options import JsonOption, KeyOption, ProjectOption, ServerOption
from hedgerow.cli.output import print_json, print_table
from hedgerow.cli.service_client import connect_service
from hedgerow.errors import OperatorError
from hedgerow.events.listing.csv_writer import format_csv_rows
from hedgerow.lib.text import format_value

# The most rows that the service returns for a query.
MAX_ROWS = 50_000


class QueryFormat(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def query(  # noqa: PLR0913 - options
    text: Annotated[str, typer.Argument(help="A HogQL query, or - for standard input.")],
    format: Annotated[
        QueryFormat, typer.Option("--format", "-f", help="Format of the result.")
    ] = QueryFormat.TABLE,
    chart: ChartOption = None,
    as_json: JsonOption = False,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """Run a HogQL query on the running service.

    Reads events, persons and groups. Needs a personal API key with the scope query:read.

    A chart draws the first column as labels and the other columns, which are numbers.

    Example: hedgerow query "select event, count() from events group by event"
    """
    service = connect_service(server, key, project)
    if text == "-":
        text = sys.stdin.read()
    result = service.query(text)
    columns, rows = result["columns"], result["results"]
    if as_json or format is QueryFormat.JSON:
        print_json({"columns": columns, "results": rows})
    elif chart is not None:
        draw_chart(chart, [_format_cell(row[0]) for row in rows], _read_series(columns, rows))
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


def _read_series(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[ChartSeries]:
    if len(columns) < 2:
        raise OperatorError("A chart needs a column of labels and at least one of numbers.")
    return [
        ChartSeries(name=name, values=[_read_number(row[number], name) for row in rows])
        for number, name in enumerate(columns[1:], start=1)
    ]


def _read_number(value: Any, column: str) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OperatorError(
            f"The column {column} has {format_value(value)}, which is not a number to draw."
        )
    return value


def _format_cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
