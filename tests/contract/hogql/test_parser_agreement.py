"""Our parser agrees with PostHog's."""

import json
from pathlib import Path
from typing import Any

import pytest

from hedgerow.hogql.ast import Expr, SelectQuery, SelectSet
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.parser.parse import parse_expr, parse_order, parse_select
from hedgerow.hogql.unparse import to_hogql
from tests.contract.hogql import reference_parser

_HERE = Path(__file__).parent
_PARSERS: dict[str, Any] = {
    "expression": (parse_expr, reference_parser.parse_expression),
    "select": (parse_select, reference_parser.parse_select),
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


def test_expressions_parse_alike() -> None:
    """One test for all, which is faster. The failure lists the texts that differ."""
    assert not {
        text
        for text in EXPRESSIONS
        if reference_parser.convert_tree(parse_expr(text))
        != reference_parser.parse_expression(text)
    }


def test_selects_parse_alike() -> None:
    assert not {
        text
        for text in SELECTS
        if reference_parser.convert_tree(parse_select(text)) != reference_parser.parse_select(text)
    }


@pytest.mark.parametrize("text", ["a", "a desc", "a asc", "-a", "f(a) descending", "a + b desc"])
def test_order_clauses_parse_alike(text: str) -> None:
    assert reference_parser.convert_tree(parse_order(text)) == reference_parser.parse_order(text)


def test_unparsed_trees_round_trip() -> None:
    def parse_again(tree: Expr) -> Expr:
        is_query = isinstance(tree, SelectQuery | SelectSet)
        return (parse_select if is_query else parse_expr)(to_hogql(tree))

    trees = [*map(parse_expr, EXPRESSIONS), *map(parse_select, SELECTS)]
    assert not [to_hogql(tree) for tree in trees if parse_again(tree) != tree]


@pytest.mark.parametrize("entry", entries("refused.json"), ids=lambda entry: entry["text"])
def test_both_parsers_reject_invalid_text(entry: dict[str, str]) -> None:
    ours, theirs = _PARSERS[entry["read_as"]]
    with pytest.raises(reference_parser.RejectedByReference):
        theirs(entry["text"])
    with pytest.raises(HogQLError):
        ours(entry["text"])


@pytest.mark.parametrize("entry", entries("differences.json"), ids=lambda entry: entry["text"])
def test_listed_differences_are_differences(entry: dict[str, str]) -> None:
    ours, theirs = _PARSERS[entry["read_as"]]
    try:
        expected = theirs(entry["text"])
    except reference_parser.RejectedByReference:
        expected = None
    try:
        found = reference_parser.convert_tree(ours(entry["text"]))
    except HogQLError:
        found = None
    assert found != expected
    assert entry["reason"]
