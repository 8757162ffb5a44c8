"""Constructors for syntax trees that are built in code instead of parsed."""

from collections.abc import Sequence
from typing import Any

from hedgerow.hogql.ast import (
    And,
    Compare,
    CompareOperation,
    Constant,
    Expr,
    Field,
    FunctionCall,
    Join,
    Not,
    Or,
    SelectQuery,
)

TRUE = Constant(value=True)
FALSE = Constant(value=False)


def constant(of: Any) -> Constant:
    return Constant(value=of)


def field(*chain: str | int) -> Field:
    return Field(chain=chain)


def call(name: str, *args: Expr) -> FunctionCall:
    return FunctionCall(name=name, args=args)


def compare(left: Expr, op: Compare, right: Expr) -> CompareOperation:
    return CompareOperation(op=op, left=left, right=right)


def equals(left: Expr, right: Any) -> CompareOperation:
    return compare(left, Compare.EQ, constant(right))


def in_list(left: Expr, options: Sequence[Any]) -> Expr:
    if len(options) <= 1:
        return equals(left, options[0]) if options else FALSE
    return call("in", left, constant(list(options)))


def in_subquery(left: Expr, select: SelectQuery) -> CompareOperation:
    return compare(left, Compare.IN, select)


def false_if_null(expr: Expr, *, otherwise: bool = False) -> FunctionCall:
    """Return the expression with `otherwise` in place of null."""
    return call("ifNull", expr, constant(otherwise))


def all_of(exprs: Sequence[Expr]) -> Expr:
    if not exprs:
        return TRUE
    return exprs[0] if len(exprs) == 1 else And(exprs=exprs)


def any_of(exprs: Sequence[Expr]) -> Expr:
    if not exprs:
        return FALSE
    return exprs[0] if len(exprs) == 1 else Or(exprs=exprs)


def negate(expr: Expr) -> Not:
    return Not(expr=expr)


def select_from(table: str, column: Expr, where: Expr) -> SelectQuery:
    return SelectQuery(select=[column], source=Join(table=field(table)), where=where)
