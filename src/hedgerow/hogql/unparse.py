"""Conversion of a syntax tree to HogQL text. Parsing the text gives an equal tree."""

import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime

from hedgerow.hogql.ast import (
    Alias,
    And,
    ArithmeticOperation,
    Array,
    ArrayAccess,
    BetweenExpr,
    CompareOperation,
    Constant,
    Cte,
    Field,
    FrameEdge,
    FunctionCall,
    Join,
    Lambda,
    LimitBy,
    Node,
    Not,
    Or,
    OrderExpr,
    Placeholder,
    SelectQuery,
    SelectSet,
    Tuple,
    TupleAccess,
    TypeCast,
    WindowFunction,
    WindowSpec,
)
from hedgerow.hogql.parser.expressions import (
    ADD,
    ALIAS,
    AND,
    BETWEEN,
    COMPARE,
    MULTIPLY,
    NEGATE,
    NOT,
    OR,
    PART,
    TERNARY,
)
from hedgerow.hogql.parser.token_stream import RESERVED

_PLAIN_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_OTHER_WORDS = (
    "null true false inf infinity nan interval case cast try_cast cohort not date timestamp over "
    "filter order rows range recursive partition"
)
_QUOTED_WORDS = RESERVED | set(_OTHER_WORDS.split())
_ESCAPES = str.maketrans(
    {"\\": "\\\\", "'": "\\'", "\b": "\\b", "\f": "\\f", "\r": "\\r", "\n": "\\n", "\t": "\\t",
     "\a": "\\a", "\v": "\\v"}
)  # fmt: skip


def to_hogql(node: Node) -> str:
    """Return the text on one line, with the brackets that it needs."""
    return _format(node)


def _format(node: Node) -> str:  # noqa: C901 - a case a node
    match node:
        case Constant():
            return _format_constant(node.value)
        case Field():
            return _format_chain(node.chain)
        case Placeholder():
            return "{" + ".".join(_format_name(link) for link in node.chain) + "}"
        case And():
            return " AND ".join(_format_operand(each, NOT) for each in node.exprs)
        case Or():
            return " OR ".join(_format_operand(each, AND) for each in node.exprs)
        case Not():
            return f"NOT {_format_operand(node.expr, NOT)}"
        case CompareOperation():
            left, right = (
                _format_operand(node.left, COMPARE),
                _format_operand(node.right, COMPARE + 1),
            )
            return f"{left} {_format_operator(node)} {right}"
        case ArithmeticOperation():
            binding = _binding(node)
            left, right = (
                _format_operand(node.left, binding),
                _format_operand(node.right, binding + 1),
            )
            return f"{left} {node.op} {right}"
        case BetweenExpr():
            low, high = _format_operand(node.low, NOT), _format_operand(node.high, BETWEEN + 1)
            word = "NOT BETWEEN" if node.negated else "BETWEEN"
            return f"{_format_operand(node.expr, BETWEEN)} {word} {low} AND {high}"
        case FunctionCall():
            return _format_call(node)
        case WindowFunction():
            params = "" if node.params is None else f"({_format_list(node.params)})"
            call = f"{_format_name(node.name)}{params}({_format_list(node.args)})"
            return f"{call} OVER {_format_over(node.over)}"
        case TypeCast():
            return f"cast({_format_operand(node.expr, COMPARE)} AS {node.type_name})"
        case Array():
            return f"[{_format_list(node.exprs)}]"
        case Tuple():
            return f"({_format_list(node.exprs)}{',' if len(node.exprs) == 1 else ''})"
        case ArrayAccess():
            dot = "?." if node.nullish else ""
            return f"{_format_base(node.array)}{dot}[{_format_operand(node.index, ALIAS)}]"
        case TupleAccess():
            return f"{_format_base(node.tuple)}{'?.' if node.nullish else '.'}{node.index}"
        case Lambda():
            args = ", ".join(_format_name(each) for each in node.args)
            return f"({args}) -> {_format_operand(node.expr, ALIAS)}"
        case Alias():
            return f"{_format_operand(node.expr, TERNARY)} AS {_format_name(node.alias)}"
        case OrderExpr():
            nulls = f" NULLS {node.nulls.upper()}" if node.nulls else ""
            return (
                f"{_format_operand(node.expr, ALIAS)} {'DESC' if node.descending else 'ASC'}{nulls}"
            )
        case SelectQuery():
            return _format_select(node)
        case SelectSet():
            return _format_set(node)
        case _:
            raise TypeError(f"{type(node).__name__} has no text of its own")


def _format_operator(node: CompareOperation) -> str:
    return {"==": "="}.get(node.op, node.op.upper())


def _binding(node: Node) -> int:
    """Return the binding strength of a node, as `parser/expressions.py` defines it."""
    match node:
        case SelectQuery() | SelectSet():
            return 0
        case ArithmeticOperation():
            return ADD if node.op in "+-" else MULTIPLY
        case Constant() if isinstance(node.value, int | float):
            return NEGATE
        case _:
            return _BINDINGS.get(type(node), PART)


_BINDINGS: dict[type[Node], int] = {
    Alias: ALIAS,
    Lambda: ALIAS,
    Or: OR,
    And: AND,
    Not: NOT,
    BetweenExpr: BETWEEN,
    CompareOperation: COMPARE,
}


def _format_operand(node: Node, least: int = ALIAS) -> str:
    text = _format(node)
    return text if _binding(node) >= least else f"({text})"


def _format_base(node: Node) -> str:
    """Format the operand of an index or member access."""
    return _format_operand(node, PART)


def _format_call(node: FunctionCall) -> str:
    params = "" if node.params is None else f"({_format_list(node.params)})"
    distinct = "DISTINCT " if node.distinct else ""
    return f"{_format_name(node.name)}{params}({distinct}{_format_list(node.args)})"


def _format_list(nodes: Sequence[Node]) -> str:
    return ", ".join(_format_operand(node) for node in nodes)


def _format_constant(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case float() if not math.isfinite(value):
            return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
        case int() | float():
            return repr(value)
        case datetime():
            return f"toDateTime('{value.astimezone(UTC).isoformat()}')"
        case date():
            return f"toDate('{value.isoformat()}')"
        case list() | tuple():
            return f"[{', '.join(_format_constant(member) for member in value)}]"
        case _:
            return f"'{str(value).translate(_ESCAPES)}'"


def _format_chain(chain: Sequence[str | int]) -> str:
    """Format a chain of names. A star and an index are not quoted."""
    parts: list[str] = []
    for number, link in enumerate(chain):
        if isinstance(link, int):
            parts.append(f"[{link}]")
        else:
            dot = "." if number else ""
            parts.append(dot + ("*" if link == "*" else _format_name(link, after_dot=bool(number))))
    return "".join(parts)


def _format_name(name: str, *, after_dot: bool = False) -> str:
    if _PLAIN_NAME.fullmatch(name) and (after_dot or name.lower() not in _QUOTED_WORDS):
        return name
    if name.lower() in ("if", "not", "in", "like", "left", "right", "any", "date", "timestamp"):
        return name
    escaped = name.translate(_ESCAPES).replace("\\'", "'").replace("`", "``")
    return f"`{escaped}`"


def _format_over(over: WindowSpec | str | None) -> str:
    if isinstance(over, str):
        return _format_name(over)
    return f"({_format_window(over) if over else ''})"


def _format_window(window: WindowSpec) -> str:
    parts = []
    if window.partition_by:
        parts.append(f"PARTITION BY {_format_list(window.partition_by)}")
    if window.order_by:
        parts.append(f"ORDER BY {_format_list(window.order_by)}")
    if window.frame_method and window.frame_start:
        edges = _format_frame_edge(window.frame_start)
        if window.frame_end is not None:
            edges = f"BETWEEN {edges} AND {_format_frame_edge(window.frame_end)}"
        parts.append(f"{window.frame_method} {edges}")
    return " ".join(parts)


def _format_frame_edge(edge: FrameEdge) -> str:
    if edge.value == 0:
        return "CURRENT ROW"
    amount = "UNBOUNDED" if edge.value is None else edge.value
    return f"{amount} {'PRECEDING' if edge.is_preceding else 'FOLLOWING'}"


def _format_select(query: SelectQuery) -> str:
    windows = ", ".join(
        f"{_format_name(n)} AS ({_format_window(w)})" for n, w in query.windows.items()
    )
    parts = [
        f"WITH {', '.join(_format_cte(cte) for cte in query.ctes.values())}" if query.ctes else "",
        f"SELECT {'DISTINCT ' if query.distinct else ''}{_format_list(query.select)}",
        f"FROM {_format_join(query.source)}" if query.source else "",
        f"{query.array_join_kind} {_format_list(query.array_join)}" if query.array_join else "",
        f"PREWHERE {_format_operand(query.prewhere)}" if query.prewhere else "",
        f"WHERE {_format_operand(query.where)}" if query.where else "",
        f"GROUP BY {', '.join(_format_operand(each) for each in query.group_by)}"
        if query.group_by
        else "",
        f"HAVING {_format_operand(query.having)}" if query.having else "",
        f"WINDOW {windows}" if windows else "",
        f"ORDER BY {_format_list(query.order_by)}" if query.order_by else "",
        _format_limit_by(query.limit_by) if query.limit_by else "",
        f"LIMIT {_format_operand(query.limit)}" if query.limit else "",
        "WITH TIES" if query.limit_with_ties else "",
        f"OFFSET {_format_operand(query.offset)}" if query.offset else "",
    ]
    return " ".join(part for part in parts if part)


def _format_cte(cte: Cte) -> str:
    if cte.is_column:
        return f"{_format_operand(cte.expr)} AS {_format_name(cte.name)}"
    return f"{_format_name(cte.name)} AS ({_format(cte.expr)})"


def _format_limit_by(limit: LimitBy) -> str:
    skipped = f" OFFSET {_format_operand(limit.offset)}" if limit.offset else ""
    keys = ", ".join(_format_operand(each) for each in limit.exprs)
    return f"LIMIT {_format_operand(limit.n)}{skipped} BY {keys}"


def _format_join(join: Join) -> str:
    parts = []
    following: Join | None = join
    while following is not None:
        table = _format_operand(following.table)
        alias = f" AS {_format_name(following.alias)}" if following.alias else ""
        final = " FINAL" if following.is_final else ""
        kind = f"{following.kind} " if following.kind else ""
        condition = ""
        if following.constraint is not None:
            word = "USING" if following.uses else "ON"
            condition = f" {word} {_format_operand(following.constraint)}"
        parts.append(f"{kind}{table}{alias}{final}{condition}")
        following = following.next_join
    return " ".join(parts)


def _format_set(query: SelectSet) -> str:
    parts = [f"({_format(query.first)})"]
    parts += [f"{operator} ({_format(each)})" for operator, each in query.rest]
    text = " ".join(parts)
    if query.limit is None and query.offset is None:
        return text
    limit = f" LIMIT {_format_operand(query.limit)}" if query.limit else ""
    offset = f" OFFSET {_format_operand(query.offset)}" if query.offset else ""
    return f"({text}){limit}{offset}" if query.rest else f"{text}{limit}{offset}"
