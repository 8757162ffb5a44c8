"""What PostHog's own parser makes of a text, ours makes of it too."""

import json
from pathlib import Path
from typing import Any

import pytest

from hedgerow.hogql.ast import Expr, SelectQuery, SelectSet
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.parse import parse_expr, parse_order, parse_select
from hedgerow.hogql.text import to_hogql
from tests.contract.hogql import oracle

_HERE = Path(__file__).parent
_READERS: dict[str, Any] = {
    "expression": (parse_expr, oracle.expression),
    "select": (parse_select, oracle.select),
}


def lines(name: str) -> list[str]:
    return (_HERE / name).read_text().splitlines()


def entries(name: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads((_HERE / name).read_text())
    return found


EXPRESSIONS, SELECTS = lines("expressions.txt"), lines("selects.txt")


def test_the_corpus_is_large_enough() -> None:
    assert len(set(EXPRESSIONS)) >= 400
    assert len(set(SELECTS)) >= 100


def test_expressions() -> None:
    """All at once, which is quicker than one test for each; what differs is told by its text."""
    assert not {
        text for text in EXPRESSIONS if oracle.ours(parse_expr(text)) != oracle.expression(text)
    }


def test_selects() -> None:
    assert not {text for text in SELECTS if oracle.ours(parse_select(text)) != oracle.select(text)}


@pytest.mark.parametrize("text", ["a", "a desc", "a asc", "-a", "f(a) descending", "a + b desc"])
def test_orders(text: str) -> None:
    assert oracle.ours(parse_order(text)) == oracle.order(text)


def test_a_tree_written_and_read_is_the_same() -> None:
    def again(tree: Expr) -> Expr:
        is_query = isinstance(tree, SelectQuery | SelectSet)
        return (parse_select if is_query else parse_expr)(to_hogql(tree))

    trees = [*map(parse_expr, EXPRESSIONS), *map(parse_select, SELECTS)]
    assert not [to_hogql(tree) for tree in trees if again(tree) != tree]


@pytest.mark.parametrize("entry", entries("refused.json"), ids=lambda entry: entry["text"])
def test_what_both_refuse(entry: dict[str, str]) -> None:
    ours, theirs = _READERS[entry["read_as"]]
    with pytest.raises(oracle.Refused):
        theirs(entry["text"])
    with pytest.raises(HogQLError):
        ours(entry["text"])


@pytest.mark.parametrize("entry", entries("differences.json"), ids=lambda entry: entry["text"])
def test_listed_differences_are_differences(entry: dict[str, str]) -> None:
    ours, theirs = _READERS[entry["read_as"]]
    try:
        expected = theirs(entry["text"])
    except oracle.Refused:
        expected = None
    try:
        found = oracle.ours(ours(entry["text"]))
    except HogQLError:
        found = None
    assert found != expected
    assert entry["reason"]
