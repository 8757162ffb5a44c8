"""PostHog's HogQL parser as a reference, and the conversion of our trees to its format."""

import json
import math
import sys
from types import ModuleType
from typing import Any

from hedgerow.hogql import ast

# The package imports two modules that it does not contain. Empty ones are enough.
for _missing in ("posthog.hogql", "posthog.hogql.errors"):
    sys.modules.setdefault(_missing, ModuleType(_missing))

import hogql_parser  # noqa: E402

Json = Any


class RejectedByReference(Exception):
    """The reference parser rejects the text."""


def parse_expression(text: str) -> Json:
    return _call_parser(hogql_parser.parse_expr_json(text, is_internal=True))


def parse_order(text: str) -> Json:
    return _call_parser(hogql_parser.parse_order_expr_json(text, is_internal=True))


def parse_select(text: str) -> Json:
    return _call_parser(hogql_parser.parse_select_json(text, is_internal=True))


def _call_parser(text: str) -> Json:
    found = json.loads(text)
    if found.get("error"):
        raise RejectedByReference(found["message"])
    return _strip_empty(found)


def _strip_empty(value: Json) -> Json:
    """Return its tree without empty fields, with the few forms that our parser lowers."""
    if isinstance(value, list):
        return [_strip_empty(member) for member in value]
    if not isinstance(value, dict):
        return value
    fields = {
        name: _strip_empty(member)
        for name, member in value.items()
        if member is not None and member is not False and name != "is_null_comparison_style"
    }
    node = fields.get("node")
    if node == "Constant" and value.get("value_type") == "number":
        return _number(value["value"])
    if node == "Constant":
        return {"node": "Constant", "value": value["value"]}
    if node == "IsDistinctFrom":
        op = "==" if fields.get("negated") else "!="
        return _compare(op, fields["left"], fields["right"])
    if node == "TryCast":
        fields["node"] = "TypeCast"
    if node == "Call" and "filter_expr" in fields:
        condition = fields.pop("filter_expr")
        args = [] if fields["args"] == [{"node": "Field", "chain": ["*"]}] else fields["args"]
        fields |= {"name": f"{fields['name']}If", "args": [*args, condition]}
    if node in ("SelectQuery", "WindowExpr"):
        return {name: member for name, member in fields.items() if member not in ([], {})}
    return fields


def _number(text: str) -> Json:
    if text.lstrip("-").isdigit():
        return {"node": "Constant", "value": int(text)}
    return {"node": "Constant", "value": text}


def _compare(op: str, left: Json, right: Json) -> Json:
    return {"node": "CompareOperation", "op": op, "left": left, "right": right}


def convert_tree(tree: ast.Node | None) -> Json:
    """Convert our tree to the format of the reference parser."""
    writer = {
        ast.Constant: _constant,
        ast.Field: lambda node: {"node": "Field", "chain": list(node.chain)},
        ast.Placeholder: lambda node: {
            "node": "Placeholder",
            "expr": {"node": "Field", "chain": list(node.chain)},
        },
        ast.Lambda: lambda node: {
            "node": "Lambda",
            "args": list(node.args),
            "expr": convert_tree(node.expr),
        },
        ast.ArrayAccess: lambda node: _some(
            "ArrayAccess",
            array=convert_tree(node.array),
            property=convert_tree(node.index),
            nullish=node.nullish,
        ),
        ast.TupleAccess: lambda node: _some(
            "TupleAccess", tuple=convert_tree(node.tuple), index=node.index, nullish=node.nullish
        ),
        ast.OrderExpr: lambda node: {
            "node": "OrderExpr",
            "expr": convert_tree(node.expr),
            "order": "DESC" if node.descending else "ASC",
        },
        ast.FunctionCall: _call,
        ast.WindowSpec: _window,
        ast.WindowFunction: _window_function,
        ast.Join: _join,
        ast.Cte: lambda node: {
            "node": "CTE",
            "name": node.name,
            "expr": convert_tree(node.expr),
            "cte_type": "column" if node.is_column else "subquery",
        },
        ast.LimitBy: lambda node: _some(
            "LimitByExpr",
            n=convert_tree(node.n),
            exprs=_all(node.exprs),
            offset_value=convert_tree(node.offset),
        ),
        ast.SelectQuery: _select,
        ast.SelectSet: _set,
    }.get(type(tree))
    if tree is None:
        return None
    if writer is not None:
        return writer(tree)
    return _fields(tree)


def _fields(node: ast.Node) -> Json:
    """Convert a node whose fields have the same names in both parsers."""
    found: dict[str, Json] = {}
    for name in node.__dataclass_fields__:
        if name in ("start", "end"):
            continue
        value = getattr(node, name)
        found[name] = (
            convert_tree(value)
            if isinstance(value, ast.Node)
            else _all(value)
            if isinstance(value, tuple)
            else str(value)
            if isinstance(value, str)
            else value
        )
    return _some(type(node).__name__, **found)


def _some(node: str, **values: Json) -> Json:
    return {"node": node} | {
        name: value for name, value in values.items() if value is not None and value is not False
    }


def _all(nodes: Any) -> list[Json]:
    return [convert_tree(node) for node in nodes]


def _constant(node: ast.Constant) -> Json:
    value = node.value
    if isinstance(value, float) and not math.isfinite(value):
        sign = "-" if value < 0 else ""
        return {"node": "Constant", "value": "NaN" if math.isnan(value) else f"{sign}Infinity"}
    return {"node": "Constant", "value": value}


def _call(node: ast.FunctionCall) -> Json:
    return _some(
        "Call",
        name=node.name,
        args=_all(node.args),
        params=None if node.params is None else _all(node.params),
        distinct=node.distinct,
    )


def _window(node: ast.WindowSpec) -> Json:
    return _some(
        "WindowExpr",
        partition_by=_all(node.partition_by) or None,
        order_by=_all(node.order_by) or None,
        frame_method=node.frame_method,
        frame_start=_edge(node.frame_start),
        frame_end=_edge(node.frame_end),
    )


def _edge(edge: ast.FrameEdge | None) -> Json:
    if edge is None:
        return None
    if edge.value == 0:
        return {"node": "WindowFrameExpr", "frame_type": "CURRENT ROW"}
    kind = "PRECEDING" if edge.is_preceding else "FOLLOWING"
    return _some("WindowFrameExpr", frame_type=kind, frame_value=edge.value)


def _window_function(node: ast.WindowFunction) -> Json:
    first = node.args if node.params is None else node.params
    named = node.over if isinstance(node.over, str) else None
    return _some(
        "WindowFunction",
        name=node.name,
        exprs=_all(first),
        args=[] if node.params is None else _all(node.args),
        over_identifier=named,
        over_expr=None if named is not None else convert_tree(node.over),  # type: ignore[arg-type]
    )


def _join(node: ast.Join) -> Json:
    constraint = None
    if node.constraint is not None:
        kind = "USING" if node.uses else "ON"
        constraint = _some(
            "JoinConstraint", expr=convert_tree(node.constraint), constraint_type=kind
        )
    return _some(
        "JoinExpr",
        table=convert_tree(node.table),
        alias=node.alias,
        join_type=node.kind or None,
        constraint=constraint,
        table_final=node.is_final,
        next_join=convert_tree(node.next_join),
    )


def _select(node: ast.SelectQuery) -> Json:
    return _some(
        "SelectQuery",
        select=_all(node.select),
        distinct=node.distinct,
        ctes=_all(node.ctes.values()) or None,
        select_from=convert_tree(node.source),
        array_join_op=node.array_join_kind or None,
        array_join_list=_all(node.array_join) or None,
        prewhere=convert_tree(node.prewhere),
        where=convert_tree(node.where),
        group_by=_all(node.group_by) or None,
        having=convert_tree(node.having),
        window_exprs={name: convert_tree(window) for name, window in node.windows.items()} or None,
        order_by=_all(node.order_by) or None,
        limit=convert_tree(node.limit),
        offset=convert_tree(node.offset),
        limit_by=convert_tree(node.limit_by),
        limit_with_ties=node.limit_with_ties,
    )


def _set(node: ast.SelectSet) -> Json:
    return _some(
        "SelectSetQuery",
        initial_select_query=convert_tree(node.first),
        subsequent_select_queries=[
            {"node": "SelectSetNode", "set_operator": operator, "select_query": convert_tree(query)}
            for operator, query in node.rest
        ],
        limit=convert_tree(node.limit),
        offset=convert_tree(node.offset),
    )
