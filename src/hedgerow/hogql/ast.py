"""The HogQL syntax tree.

The parser removes syntactic sugar: `CASE` and `? :` become calls of `if`, `??` becomes `ifNull`,
`interval 1 day` becomes `toIntervalDay`, and an f-string becomes `concat`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import TypeAlias
from uuid import UUID


class Compare(StrEnum):
    EQ = "=="
    NOT_EQ = "!="
    GT = ">"
    GT_EQ = ">="
    LT = "<"
    LT_EQ = "<="
    LIKE = "like"
    NOT_LIKE = "not like"
    ILIKE = "ilike"
    NOT_ILIKE = "not ilike"
    IN = "in"
    NOT_IN = "not in"
    GLOBAL_IN = "global in"
    GLOBAL_NOT_IN = "global not in"
    IN_COHORT = "in cohort"
    NOT_IN_COHORT = "not in cohort"
    REGEX = "=~"
    NOT_REGEX = "!~"
    IREGEX = "=~*"
    NOT_IREGEX = "!~*"


class Arithmetic(StrEnum):
    ADD = "+"
    SUB = "-"
    MULT = "*"
    DIV = "/"
    MOD = "%"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """`start` and `end` are offsets in the query text, for error messages. Equality ignores
    them."""

    start: int | None = field(default=None, compare=False)
    end: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(Node):
    """A sequence is an array. Dates come from filters, never from query text."""

    value: "str | int | float | bool | UUID | date | datetime | Sequence[object] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field(Node):
    """`properties.a` has the chain `("properties", "a")`. `*` and `events.*` end in a star."""

    chain: Sequence[str | int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder(Node):
    """`{name}`, replaced before names are resolved."""

    chain: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class And(Node):
    exprs: "Sequence[Expr]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Or(Node):
    exprs: "Sequence[Expr]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Not(Node):
    expr: "Expr"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOperation(Node):
    op: Compare
    left: "Expr"
    right: "Expr"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArithmeticOperation(Node):
    op: Arithmetic
    left: "Expr"
    right: "Expr"


@dataclass(frozen=True, slots=True, kw_only=True)
class BetweenExpr(Node):
    expr: "Expr"
    low: "Expr"
    high: "Expr"
    negated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall(Node):
    """`quantile(0.9)(x)` has `params`. They are None for a call with one argument list."""

    name: str
    args: "Sequence[Expr]" = ()
    params: "Sequence[Expr] | None" = None
    distinct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeCast(Node):
    expr: "Expr"
    type_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Array(Node):
    exprs: "Sequence[Expr]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuple(Node):
    exprs: "Sequence[Expr]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayAccess(Node):
    array: "Expr"
    index: "Expr"
    nullish: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TupleAccess(Node):
    tuple: "Expr"
    index: int
    nullish: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lambda(Node):
    args: Sequence[str]
    expr: "Expr"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias(Node):
    """A `hidden` alias names a column of the result only."""

    expr: "Expr"
    alias: str
    hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderExpr(Node):
    """`nulls` is "first" or "last" if the query says so."""

    expr: "Expr"
    descending: bool = False
    nulls: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameEdge(Node):
    """`value` is the number of rows before or after; None is UNBOUNDED and 0 is CURRENT ROW."""

    is_preceding: bool
    value: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSpec(Node):
    partition_by: "Sequence[Expr]" = ()
    order_by: Sequence[OrderExpr] = ()
    frame_method: str | None = None
    frame_start: FrameEdge | None = None
    frame_end: FrameEdge | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFunction(Node):
    """`over` is a window or the name of one."""

    name: str
    args: "Sequence[Expr]" = ()
    params: "Sequence[Expr] | None" = None
    over: WindowSpec | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(Node):
    """A table in FROM. `next_join` is the table joined to it. `kind` is empty for the first
    table."""

    table: "Expr"
    alias: str | None = None
    kind: str = ""
    constraint: "Expr | None" = None
    uses: bool = False
    is_final: bool = False
    next_join: "Join | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cte(Node):
    """`WITH name AS (SELECT ...)`, or `WITH expr AS name` if `is_column`."""

    name: str
    expr: "Expr"
    is_column: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitBy(Node):
    n: "Expr"
    exprs: "Sequence[Expr]"
    offset: "Expr | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectQuery(Node):
    select: "Sequence[Expr]"
    distinct: bool = False
    ctes: Mapping[str, Cte] = field(default_factory=dict)
    source: Join | None = None
    array_join_kind: str = ""
    array_join: "Sequence[Expr]" = ()
    prewhere: "Expr | None" = None
    where: "Expr | None" = None
    group_by: "Sequence[Expr]" = ()
    having: "Expr | None" = None
    windows: Mapping[str, WindowSpec] = field(default_factory=dict)
    order_by: Sequence[OrderExpr] = ()
    limit: "Expr | None" = None
    offset: "Expr | None" = None
    limit_by: LimitBy | None = None
    limit_with_ties: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectSet(Node):
    """`first UNION ALL second ...`, left-associative. `limit` applies to the whole set."""

    first: "SelectQuery | SelectSet"
    rest: "Sequence[tuple[str, SelectQuery | SelectSet]]"
    limit: "Expr | None" = None
    offset: "Expr | None" = None


Select: TypeAlias = SelectQuery | SelectSet
Expr: TypeAlias = (
    Constant
    | Field
    | Placeholder
    | And
    | Or
    | Not
    | CompareOperation
    | ArithmeticOperation
    | BetweenExpr
    | FunctionCall
    | TypeCast
    | Array
    | Tuple
    | ArrayAccess
    | TupleAccess
    | Lambda
    | Alias
    | WindowFunction
    | SelectQuery
    | SelectSet
)
