"""Any text gives a result or a HogQLError, and never becomes part of the SQL."""

import os
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.hogql.ast import SelectQuery, SelectSet
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.parser.parse import MAX_QUERY_CHARS, parse_expr, parse_order, parse_select
from hedgerow.hogql.printer.statement import RowLimits, print_select
from hedgerow.hogql.unparse import to_hogql
from tests.contract.hogql.engine import PROJECT, SECRET, Engine, make_context
from tests.contract.hogql.sql_checks import check
from tests.contract.hogql.test_isolation import LEAK_ATTEMPTS, run_printed
from tests.contract.hogql.test_parser_agreement import EXPRESSIONS, SELECTS
from tests.unit.generated import PATIENT

# Raise the number with HOGQL_FUZZ=100000.
STRINGS = int(os.environ.get("HOGQL_FUZZ", "3000"))
# This many of the printed queries are also run.
RUN = STRINGS // 20

_CORPUS = [*EXPRESSIONS, *SELECTS, *LEAK_ATTEMPTS]
_PIECES = [
    '(', ')', '[', ']', '{', '}', '.', ',', ';', ':', '?', '+', '-', '*', '/', '%', '=', '<', '>',
    '~', "'", '"', '`', '\\', '$', '#', '@', '!', ' ', '\n', '\x00', 'é', '‘', "'", "''", "\\'",
    '--', '/*', '*/', '->', '::', '??', '?.', '=~', '!~*', "f'", "f'{", 'select ',
    ' from events ', ' where ', ' union all ', 'with a as (', ' as ', ' not ', ' in ', ' cohort ',
    ' between ', ' and ', 'case when ', ' end', ' over (', 'interval ', 'project_id', 'team_id',
    't1', 'c1', 'properties', 'person.', '0x', '1e9', '9999999999999999999999999999999999999999',
    'count(', 'array join ', ' settings ', ' format ', '{p0:Int64}', 'system.tables', ' is null',
    ' distinct ', '\ud800',
]  # fmt: skip


def mutate(random: Random) -> str:
    """Return one or two texts of the corpus with tokens removed, moved, doubled or inserted."""
    text = random.choice(_CORPUS)
    if random.random() < 0.3:
        other = random.choice(_CORPUS)
        text = text[: random.randint(0, len(text))] + other[random.randint(0, len(other)) :]
    for _ in range(random.randint(0, 5)):
        start = random.randint(0, len(text))
        end = min(len(text), start + random.randint(0, 6))
        change = random.random()
        if change < 0.4:
            text = text[:start] + random.choice(_PIECES) + text[start:]
        elif change < 0.7:
            text = text[:start] + text[end:]
        else:
            text = text[:end] + text[start:end] * random.randint(1, 30) + text[end:]
    return text


def prints(query: SelectQuery | SelectSet) -> bool:
    try:
        printed = print_select(query, make_context(), RowLimits())
    except HogQLError:
        return False
    check(printed, PROJECT)
    return True


def print_all(text: str) -> list[str]:
    """Print the text as each kind of query. Any error except HogQLError is a failure."""
    found = []
    for read in (parse_select, parse_expr, parse_order):
        try:
            tree = read(text)
        except HogQLError:
            continue
        if isinstance(tree, SelectQuery | SelectSet) and prints(tree):
            found.append(text)
        again = parse_select if isinstance(tree, SelectQuery | SelectSet) else read
        written = to_hogql(tree)
        # Near the limits the unparsed text can nest deeper: `- -a` becomes `0 - (0 - a)`.
        if len(written) < MAX_QUERY_CHARS and written.count("(") < 50 and "nan" not in written:
            assert again(written) == tree
    return found


def test_mutated_queries_print_or_raise_hogql_error(engine: Engine) -> None:
    random = Random("hedgerow")
    printing = []
    for _ in range(STRINGS):
        printing += print_all(mutate(random))
    assert len(printing) > STRINGS / 50
    for text in random.sample(printing, min(RUN, len(printing))):
        assert SECRET not in run_printed(engine, print_select(parse_select(text), make_context()))


@settings(PATIENT, max_examples=200)
@given(st.text(max_size=200))
def test_any_text_prints_or_raises_hogql_error(text: str) -> None:
    print_all(text)


@settings(PATIENT, max_examples=200)
@given(st.lists(st.sampled_from(_PIECES), max_size=60))
def test_any_tokens_print_or_raise_hogql_error(pieces: list[str]) -> None:
    print_all("".join(pieces))


@settings(PATIENT, max_examples=100)
@given(st.text(max_size=100))
def test_any_string_literal_round_trips(engine: Engine, text: str) -> None:
    """ClickHouse returns a string literal unchanged, alone and in a list."""
    quoted = text.replace("\\", "\\\\").replace("'", "''")
    assert engine.evaluate(f"'{quoted}'") == text
    assert engine.evaluate(f"'{quoted}' in ('{quoted}', 'another')") == 1
