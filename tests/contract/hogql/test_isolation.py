"""No query of a project returns data of another project."""

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from hedgerow.errors import AppError
from hedgerow.hogql.ast import Alias, Field, Join, SelectQuery
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.parser.parse import parse_expr, parse_select
from hedgerow.hogql.printer.statement import PrintedQuery, RowLimits, print_select
from tests.contract.hogql.engine import OTHER_PROJECT, PROJECT, SECRET, Engine, make_context
from tests.contract.hogql.sql_checks import check
from tests.contract.hogql.test_parser_agreement import SELECTS

LEAK_ATTEMPTS: list[str] = json.loads((Path(__file__).parent / "leak_attempts.json").read_text())


def run_printed(engine: Engine, printed: PrintedQuery) -> str:
    """Run a query and return everything that ClickHouse responds, including errors."""
    try:
        return repr(engine.run(printed))
    except (DatabaseError, AppError) as error:
        return repr(error) + str(error.__cause__)


@pytest.mark.parametrize("text", LEAK_ATTEMPTS)
def test_no_query_leaks_another_project(engine: Engine, text: str) -> None:
    try:
        printed = print_select(parse_select(text), make_context(), RowLimits(None, None))
    except HogQLError:
        return
    check(printed, PROJECT)
    response = run_printed(engine, printed)
    assert SECRET not in response
    # All ids of the other project are above 100.
    assert not re.search(r"UUID\('0{8}-0{4}-0{4}-0{4}-0{9}(?:0[67]\w|4[4-9a-f])", response)


def test_the_other_project_has_rows(engine: Engine) -> None:
    mine, others = (
        {event for (event,) in engine.query("select event from events", project_id=project)}
        for project in (PROJECT, OTHER_PROJECT)
    )
    assert mine
    assert all(SECRET in event for event in others)
    assert not any(SECRET in event for event in mine)


def test_printed_sql_contains_only_known_words() -> None:
    printed = []
    for text in SELECTS:
        with suppress(HogQLError):
            printed.append(print_select(parse_select(text), make_context()))
    assert len(printed) > 30
    for each in printed:
        check(each, PROJECT)


def test_names_in_a_built_tree_stay_out_of_the_sql(engine: Engine) -> None:
    hostile = "x` FROM events --"
    query = SelectQuery(
        select=(Alias(expr=parse_expr("event"), alias=hostile),),
        source=Join(table=Field(chain=("events",)), alias=hostile),
    )
    printed = print_select(query, make_context())
    check(printed, PROJECT)
    assert printed.columns == [hostile]
    assert len(engine.run(printed)) == 6
