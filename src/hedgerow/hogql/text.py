"""A tree as HogQL text again. Reading it gives the same tree."""

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
    Call,
    CompareOperation,
    Constant,
    Cte,
    Field,
    FrameEdge,
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
    Window,
    WindowFunction,
)
from hedgerow.hogql.cursor import RESERVED
from hedgerow.hogql.expressions import (
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

_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_WORDS = RESERVED | {"null", "true", "false", "inf", "infinity", "nan", "interval", "case", "cast",
                     "try_cast", "cohort", "not", "date", "timestamp", "over", "filter",
                     "order", "rows", "range", "recursive", "partition"}  # fmt: skip
_ESCAPES = str.maketrans(
    {"\\": "\\\\", "'": "\\'", "\b": "\\b", "\f": "\\f", "\r": "\\r", "\n": "\\n", "\t": "\\t",
     "\a": "\\a", "\v": "\\v"}
)  # fmt: skip


def to_hogql(node: Node) -> str:
    """The text, on one line, with the brackets that it needs."""
    return _text(node)


def _text(node: Node) -> str:  # noqa: C901 - a case a node
    match node:
        case Constant():
            return _constant(node.value)
        case Field():
            return _chain(node.chain)
        case Placeholder():
            return "{" + ".".join(_name(link) for link in node.chain) + "}"
        case And():
            return " AND ".join(_operand(each, NOT) for each in node.exprs)
        case Or():
            return " OR ".join(_operand(each, AND) for each in node.exprs)
        case Not():
            return f"NOT {_operand(node.expr, NOT)}"
        case CompareOperation():
            left, right = _operand(node.left, COMPARE), _operand(node.right, COMPARE + 1)
            return f"{left} {_operator(node)} {right}"
        case ArithmeticOperation():
            binding = _binding(node)
            return f"{_operand(node.left, binding)} {node.op} {_operand(node.right, binding + 1)}"
        case BetweenExpr():
            low, high = _operand(node.low, NOT), _operand(node.high, BETWEEN + 1)
            word = "NOT BETWEEN" if node.negated else "BETWEEN"
            return f"{_operand(node.expr, BETWEEN)} {word} {low} AND {high}"
        case Call():
            return _call(node)
        case WindowFunction():
            params = "" if node.params is None else f"({_list(node.params)})"
            return f"{_name(node.name)}{params}({_list(node.args)}) OVER {_over(node.over)}"
        case TypeCast():
            return f"cast({_operand(node.expr, COMPARE)} AS {node.type_name})"
        case Array():
            return f"[{_list(node.exprs)}]"
        case Tuple():
            return f"({_list(node.exprs)}{',' if len(node.exprs) == 1 else ''})"
        case ArrayAccess():
            dot = "?." if node.nullish else ""
            return f"{_base(node.array)}{dot}[{_operand(node.index, ALIAS)}]"
        case TupleAccess():
            return f"{_base(node.tuple)}{'?.' if node.nullish else '.'}{node.index}"
        case Lambda():
            return f"({', '.join(_name(e) for e in node.args)}) -> {_operand(node.expr, ALIAS)}"
        case Alias():
            return f"{_operand(node.expr, TERNARY)} AS {_name(node.alias)}"
        case OrderExpr():
            nulls = f" NULLS {node.nulls.upper()}" if node.nulls else ""
            return f"{_operand(node.expr, ALIAS)} {'DESC' if node.descending else 'ASC'}{nulls}"
        case SelectQuery():
            return _select(node)
        case SelectSet():
            return _set(node)
        case _:
            raise TypeError(f"{type(node).__name__} has no text of its own")


def _operator(node: CompareOperation) -> str:
    return {"==": "="}.get(node.op, node.op.upper())


def _binding(node: Node) -> int:
    """How strongly a text holds together, as `expressions` has it."""
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


def _operand(node: Node, least: int = ALIAS) -> str:
    text = _text(node)
    return text if _binding(node) >= least else f"({text})"


def _base(node: Node) -> str:
    """What a part is taken of."""
    return _operand(node, PART)


def _call(node: Call) -> str:
    params = "" if node.params is None else f"({_list(node.params)})"
    distinct = "DISTINCT " if node.distinct else ""
    return f"{_name(node.name)}{params}({distinct}{_list(node.args)})"


def _list(nodes: Sequence[Node]) -> str:
    return ", ".join(_operand(node) for node in nodes)


def _constant(value: object) -> str:
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
            return f"[{', '.join(_constant(member) for member in value)}]"
        case _:
            return f"'{str(value).translate(_ESCAPES)}'"


def _chain(chain: Sequence[str | int]) -> str:
    """A star and a number stand as they are."""
    parts: list[str] = []
    for number, link in enumerate(chain):
        if isinstance(link, int):
            parts.append(f"[{link}]")
        else:
            dot = "." if number else ""
            parts.append(dot + ("*" if link == "*" else _name(link, after_dot=bool(number))))
    return "".join(parts)


def _name(name: str, *, after_dot: bool = False) -> str:
    if _PLAIN.fullmatch(name) and (after_dot or name.lower() not in _WORDS):
        return name
    if name.lower() in ("if", "not", "in", "like", "left", "right", "any", "date", "timestamp"):
        return name
    escaped = name.translate(_ESCAPES).replace("\\'", "'").replace("`", "``")
    return f"`{escaped}`"


def _over(over: Window | str | None) -> str:
    if isinstance(over, str):
        return _name(over)
    return f"({_window(over) if over else ''})"


def _window(window: Window) -> str:
    parts = []
    if window.partition_by:
        parts.append(f"PARTITION BY {_list(window.partition_by)}")
    if window.order_by:
        parts.append(f"ORDER BY {_list(window.order_by)}")
    if window.frame_method and window.frame_start:
        edges = _edge(window.frame_start)
        if window.frame_end is not None:
            edges = f"BETWEEN {edges} AND {_edge(window.frame_end)}"
        parts.append(f"{window.frame_method} {edges}")
    return " ".join(parts)


def _edge(edge: FrameEdge) -> str:
    if edge.value == 0:
        return "CURRENT ROW"
    amount = "UNBOUNDED" if edge.value is None else edge.value
    return f"{amount} {'PRECEDING' if edge.is_preceding else 'FOLLOWING'}"


def _select(query: SelectQuery) -> str:
    windows = ", ".join(f"{_name(n)} AS ({_window(w)})" for n, w in query.windows.items())
    parts = [
        f"WITH {', '.join(_cte(cte) for cte in query.ctes.values())}" if query.ctes else "",
        f"SELECT {'DISTINCT ' if query.distinct else ''}{_list(query.select)}",
        f"FROM {_join(query.source)}" if query.source else "",
        f"{query.array_join_kind} {_list(query.array_join)}" if query.array_join else "",
        f"PREWHERE {_operand(query.prewhere)}" if query.prewhere else "",
        f"WHERE {_operand(query.where)}" if query.where else "",
        f"GROUP BY {', '.join(_operand(each) for each in query.group_by)}"
        if query.group_by
        else "",
        f"HAVING {_operand(query.having)}" if query.having else "",
        f"WINDOW {windows}" if windows else "",
        f"ORDER BY {_list(query.order_by)}" if query.order_by else "",
        _limit_by(query.limit_by) if query.limit_by else "",
        f"LIMIT {_operand(query.limit)}" if query.limit else "",
        "WITH TIES" if query.limit_with_ties else "",
        f"OFFSET {_operand(query.offset)}" if query.offset else "",
    ]
    return " ".join(part for part in parts if part)


def _cte(cte: Cte) -> str:
    if cte.is_column:
        return f"{_operand(cte.expr)} AS {_name(cte.name)}"
    return f"{_name(cte.name)} AS ({_text(cte.expr)})"


def _limit_by(limit: LimitBy) -> str:
    skipped = f" OFFSET {_operand(limit.offset)}" if limit.offset else ""
    return f"LIMIT {_operand(limit.n)}{skipped} BY {', '.join(_operand(e) for e in limit.exprs)}"


def _join(join: Join) -> str:
    parts = []
    following: Join | None = join
    while following is not None:
        table = _operand(following.table)
        alias = f" AS {_name(following.alias)}" if following.alias else ""
        final = " FINAL" if following.is_final else ""
        kind = f"{following.kind} " if following.kind else ""
        condition = ""
        if following.constraint is not None:
            word = "USING" if following.uses else "ON"
            condition = f" {word} {_operand(following.constraint)}"
        parts.append(f"{kind}{table}{alias}{final}{condition}")
        following = following.next_join
    return " ".join(parts)


def _set(query: SelectSet) -> str:
    parts = [f"({_text(query.first)})"]
    parts += [f"{operator} ({_text(each)})" for operator, each in query.rest]
    text = " ".join(parts)
    if query.limit is None and query.offset is None:
        return text
    limit = f" LIMIT {_operand(query.limit)}" if query.limit else ""
    offset = f" OFFSET {_operand(query.offset)}" if query.offset else ""
    return f"({text}){limit}{offset}" if query.rest else f"{text}{limit}{offset}"
