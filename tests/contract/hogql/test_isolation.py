"""No query of one project ever shows a byte of another's."""

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from hedgerow.errors import AppError
from hedgerow.hogql.ast import Alias, Field, Join, SelectQuery
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.parse import parse_expr, parse_select
from hedgerow.hogql.printer import Limits, Printed, print_select
from tests.contract.hogql.sealed import check
from tests.contract.hogql.test_agreement import SELECTS
from tests.contract.hogql.world import MINE, OTHERS, SECRET, Engine, world

TRIES: list[str] = json.loads((Path(__file__).parent / "tries.json").read_text())


def told(engine: Engine, printed: Printed) -> str:
    """Everything that the engine says to a query, errors too."""
    try:
        return repr(engine.run(printed))
    except (DatabaseError, AppError) as error:
        return repr(error) + str(error.__cause__)


@pytest.mark.parametrize("text", TRIES)
def test_no_try_gets_out(engine: Engine, text: str) -> None:
    try:
        printed = print_select(parse_select(text), world(), Limits(None, None))
    except HogQLError:
        return
    check(printed, MINE)
    answer = told(engine, printed)
    assert SECRET not in answer
    # All ids of the other project are over a hundred.
    assert not re.search(r"UUID\('0{8}-0{4}-0{4}-0{4}-0{9}(?:0[67]\w|4[4-9a-f])", answer)


def test_the_other_project_is_there(engine: Engine) -> None:
    mine, others = (
        {event for (event,) in engine.ask("select event from events", project_id=project)}
        for project in (MINE, OTHERS)
    )
    assert mine
    assert all(SECRET in event for event in others)
    assert not any(SECRET in event for event in mine)


def test_whatever_prints_is_sealed() -> None:
    printed = []
    for text in SELECTS:
        with suppress(HogQLError):
            printed.append(print_select(parse_select(text), world()))
    assert len(printed) > 30
    for each in printed:
        check(each, MINE)


def test_names_in_a_tree_made_by_hand_stay_out_too(engine: Engine) -> None:
    hostile = "x` FROM events --"
    query = SelectQuery(
        select=(Alias(expr=parse_expr("event"), alias=hostile),),
        source=Join(table=Field(chain=("events",)), alias=hostile),
    )
    printed = print_select(query, world())
    check(printed, MINE)
    assert printed.columns == [hostile]
    assert len(engine.run(printed)) == 6
