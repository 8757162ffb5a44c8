"""Short words for the trees that filters become."""

from collections.abc import Sequence
from typing import Any

from hedgerow.hogql.ast import (
    And,
    Call,
    Compare,
    CompareOperation,
    Constant,
    Expr,
    Field,
    Join,
    Not,
    Or,
    SelectQuery,
)

TRUE = Constant(value=True)
FALSE = Constant(value=False)


def value(of: Any) -> Constant:
    return Constant(value=of)


def field(*chain: str | int) -> Field:
    return Field(chain=chain)


def call(name: str, *args: Expr) -> Call:
    return Call(name=name, args=args)


def compared(left: Expr, op: Compare, right: Expr) -> CompareOperation:
    return CompareOperation(op=op, left=left, right=right)


def equal(left: Expr, right: Any) -> CompareOperation:
    return compared(left, Compare.EQ, value(right))


def among(left: Expr, options: Sequence[Any]) -> Expr:
    if len(options) <= 1:
        return equal(left, options[0]) if options else FALSE
    return call("in", left, value(list(options)))


def within(left: Expr, select: SelectQuery) -> CompareOperation:
    return compared(left, Compare.IN, select)


def surely(expr: Expr, *, otherwise: bool = False) -> Call:
    """True or false, also where the expression is null."""
    return call("ifNull", expr, value(otherwise))


def all_of(exprs: Sequence[Expr]) -> Expr:
    if not exprs:
        return TRUE
    return exprs[0] if len(exprs) == 1 else And(exprs=exprs)


def any_of(exprs: Sequence[Expr]) -> Expr:
    if not exprs:
        return FALSE
    return exprs[0] if len(exprs) == 1 else Or(exprs=exprs)


def not_(expr: Expr) -> Not:
    return Not(expr=expr)


def select_from(table: str, column: Expr, where: Expr) -> SelectQuery:
    return SelectQuery(select=[column], source=Join(table=field(table)), where=where)
