"""Queries that are written as HogQL text with placeholders for their parts."""

from hedgerow.hogql.ast import Expr, Select
from hedgerow.hogql.parser.parse import parse_select
from hedgerow.hogql.traversal import replace_placeholders


def build_select(text: str, **parts: Expr) -> Select:
    return replace_placeholders(parse_select(text), parts)
