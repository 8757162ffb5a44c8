"""HogQL read: a text in, a tree out, in time that grows with the text and no faster."""

from collections.abc import Callable
from typing import TypeVar

from hedgerow.hogql.ast import Expr, Node, OrderExpr, Select
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.lexer import Kind, tokens
from hedgerow.hogql.selects import SelectReader
from hedgerow.hogql.walk import check_height

MAX_LENGTH = 32_768

_Tree = TypeVar("_Tree", bound=Node)


def parse_expr(text: str) -> Expr:
    """One expression, with an alias perhaps."""
    return _read(text, lambda reader: reader.expression())


def parse_order(text: str) -> OrderExpr:
    """One element of ORDER BY."""
    return _read(text, lambda reader: reader.order())


def parse_select(text: str) -> Select:
    """One query. A semicolon may end it."""
    return _read(text, _whole_select)


def _whole_select(reader: SelectReader) -> Select:
    query = reader.select_set()
    reader.take(";")
    return query


def _read(text: str, read: Callable[[SelectReader], _Tree]) -> _Tree:
    if len(text) > MAX_LENGTH:
        raise HogQLError(f"The query is longer than {MAX_LENGTH:,} characters")
    try:
        reader = SelectReader(tokens(text))
        tree = read(reader)
        if reader.token.kind is not Kind.END:
            raise reader.unexpected("Expected the end")
        check_height(tree)
    except HogQLError as error:
        raise error.located(text) from None
    return tree
