"""The entry points of the parser. Parsing takes time in proportion to the length of the text."""

from collections.abc import Callable
from typing import TypeVar

from hedgerow.hogql.ast import Expr, Node, OrderExpr, Select
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.parser.lexer import TokenKind, tokenize
from hedgerow.hogql.parser.select import SelectParser
from hedgerow.hogql.traversal import check_height

MAX_QUERY_CHARS = 32_768

_Tree = TypeVar("_Tree", bound=Node)


def parse_expr(text: str) -> Expr:
    """Parse one expression, optionally with an alias."""
    return _parse_text(text, lambda reader: reader.parse_expression())


def parse_order(text: str) -> OrderExpr:
    """Parse one element of ORDER BY."""
    return _parse_text(text, lambda reader: reader.parse_order())


def parse_select(text: str) -> Select:
    """Parse one query. It may end with a semicolon."""
    return _parse_text(text, _parse_whole_select)


def _parse_whole_select(reader: SelectParser) -> Select:
    query = reader.parse_select_set()
    reader.accept(";")
    return query


def _parse_text(text: str, read: Callable[[SelectParser], _Tree]) -> _Tree:
    if len(text) > MAX_QUERY_CHARS:
        raise HogQLError(f"The query is longer than {MAX_QUERY_CHARS:,} characters")
    try:
        reader = SelectParser(tokenize(text))
        tree = read(reader)
        if reader.token.kind is not TokenKind.END:
            raise reader.syntax_error("Expected the end of the query")
        check_height(tree)
    except HogQLError as error:
        raise error.with_position(text) from None
    return tree
