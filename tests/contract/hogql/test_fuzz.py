"""Whatever somebody writes: an answer or a HogQLError, and nothing of theirs in the SQL."""

import os
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.hogql.ast import SelectQuery, SelectSet
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.parse import MAX_LENGTH, parse_expr, parse_order, parse_select
from hedgerow.hogql.printer import Limits, print_select
from hedgerow.hogql.text import to_hogql
from tests.contract.hogql.sealed import check
from tests.contract.hogql.test_agreement import EXPRESSIONS, SELECTS
from tests.contract.hogql.test_isolation import TRIES, told
from tests.contract.hogql.world import MINE, SECRET, Engine, world
from tests.unit.generated import PATIENT

# More are tried by raising this: HOGQL_FUZZ=100000.
STRINGS = int(os.environ.get("HOGQL_FUZZ", "3000"))
# Of those that print, so many are also run.
RUN = STRINGS // 20

_CORPUS = [*EXPRESSIONS, *SELECTS, *TRIES]
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


def mutated(random: Random) -> str:
    """A text of the corpus, or two, with a few pieces gone, moved, doubled or put in."""
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
        printed = print_select(query, world(), Limits())
    except HogQLError:
        return False
    check(printed, MINE)
    return True


def tried(text: str) -> list[str]:
    """The SQL of what the text can be read as. Anything but a HogQLError is a failure."""
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
        # Near the bounds a text can nest deeper than the one it came from: `- -a` is `0 - (0 - a)`.
        if len(written) < MAX_LENGTH and written.count("(") < 50 and "nan" not in written:
            assert again(written) == tree
    return found


def test_mutated_texts(engine: Engine) -> None:
    random = Random("hedgerow")
    printing = []
    for _ in range(STRINGS):
        printing += tried(mutated(random))
    assert len(printing) > STRINGS / 50
    for text in random.sample(printing, min(RUN, len(printing))):
        assert SECRET not in told(engine, print_select(parse_select(text), world()))


@settings(PATIENT, max_examples=200)
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    tried(text)


@settings(PATIENT, max_examples=200)
@given(st.lists(st.sampled_from(_PIECES), max_size=60))
def test_any_pieces(pieces: list[str]) -> None:
    tried("".join(pieces))


@settings(PATIENT, max_examples=100)
@given(st.text(max_size=100))
def test_any_text_is_a_value(engine: Engine, text: str) -> None:
    """A text in quotes comes back from the engine as it was, alone and in a list."""
    quoted = text.replace("\\", "\\\\").replace("'", "''")
    assert engine.value(f"'{quoted}'") == text
    assert engine.value(f"'{quoted}' in ('{quoted}', 'another')") == 1
