"""Traversal and transformation of syntax trees."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from hedgerow.hogql.ast import (
    Constant,
    Expr,
    Field,
    FunctionCall,
    Lambda,
    Node,
    Placeholder,
    SelectQuery,
    SelectSet,
    WindowFunction,
)
from hedgerow.hogql.errors import HogQLError, did_you_mean, quote
from hedgerow.hogql.functions import is_aggregate

# Traversals are recursive, so the height of a tree is bounded.
MAX_HEIGHT = 110

_Tree = TypeVar("_Tree", bound=Node)


def iter_children(node: Node) -> Iterator[Node]:
    """Yield the direct children of a node."""
    for name in _list_child_fields(type(node)):
        yield from _iter_members(getattr(node, name))


def iter_nodes(tree: Node) -> Iterator[Node]:
    """Yield a node and its descendants, without the contents of subqueries."""
    waiting: list[Node] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, SelectQuery | SelectSet):
            waiting.extend(iter_children(node))


def check_height(tree: Node) -> None:
    """Raise HogQLError for a tree that is too high. A long sum, for example, nests to the left."""
    level: list[Node] = [tree]
    for _ in range(MAX_HEIGHT):
        level = [below for node in level for below in iter_children(node)]
        if not level:
            return
    raise HogQLError(
        f"The query has more than {MAX_HEIGHT} nested operations", start=level[0].start
    )


def has_aggregate(expr: Node) -> bool:
    """Return whether an expression contains an aggregate function, ignoring subqueries."""
    waiting: list[Node] = [expr]
    while waiting:
        node = waiting.pop()
        if isinstance(node, SelectQuery | SelectSet):
            continue
        if isinstance(node, FunctionCall) and is_aggregate(node.name):
            return True
        if isinstance(node, WindowFunction):
            waiting.extend(node.args)
            continue
        waiting.extend(iter_children(node))
    return False


def iter_unaggregated_fields(expr: Node) -> Iterator[Field]:
    """Yield the fields outside aggregate functions, lambdas and subqueries."""
    waiting: list[Node] = [expr]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Field):
            yield node
        is_closed = isinstance(node, SelectQuery | SelectSet | Lambda)
        if not is_closed and not (isinstance(node, FunctionCall) and is_aggregate(node.name)):
            waiting.extend(iter_children(node))


def replace_placeholders(tree: _Tree, values: Mapping[str, Expr]) -> _Tree:
    """Replace each placeholder by the expression with its name. The name of `{a.b}` is "a.b"."""

    def value(node: Node) -> Node:
        if not isinstance(node, Placeholder):
            return node
        name = ".".join(node.chain)
        if name not in values:
            raise HogQLError(
                f"Missing value for the placeholder {quote(name)}",
                start=node.start,
                hint=did_you_mean(name, values),
            )
        return values[name]

    found = transform(tree, value)
    check_height(found)
    return found


def transform(tree: _Tree, change: Callable[[Node], Node]) -> _Tree:
    """Apply `change` to each node, from the leaves up. Unchanged subtrees are shared."""
    changes: dict[str, Any] = {}
    for name in _list_child_fields(type(tree)):
        before = getattr(tree, name)
        after = _transform_member(before, change)
        if after is not before:
            changes[name] = after
    return change(replace(tree, **changes) if changes else tree)  # type: ignore[return-value]


def qualify_fields(tree: _Tree, table: str, bound: frozenset[str] = frozenset()) -> _Tree:
    """Put the name of a table before each field. Subqueries, and arguments of lambdas, which are
    `bound`, stay as they are."""
    if isinstance(tree, SelectQuery | SelectSet | Constant):
        return tree
    if isinstance(tree, Field):
        first = str(tree.chain[0])
        is_other = first in bound or first == table
        return tree if is_other else replace(tree, chain=(table, *tree.chain))
    if isinstance(tree, Lambda):
        bound = bound.union(tree.args)

    def qualify(value: object) -> object:
        if isinstance(value, Node):
            return qualify_fields(value, table, bound)
        return tuple(map(qualify, value)) if isinstance(value, tuple | list) else value

    members: dict[str, Any] = {
        name: qualify(getattr(tree, name)) for name in _list_child_fields(type(tree))
    }
    return replace(tree, **members)


def _transform_member(value: object, change: Callable[[Node], Node]) -> object:
    if isinstance(value, Node):
        return transform(value, change)
    if isinstance(value, tuple | list):
        after = tuple(_transform_member(member, change) for member in value)
        same = all(new is old for new, old in zip(after, value, strict=True))
        return value if same else after
    if isinstance(value, Mapping):
        return {name: _transform_member(member, change) for name, member in value.items()}
    return value


def _iter_members(value: object) -> Iterator[Node]:
    """Yield the nodes in a sequence, a mapping, or a sequence of pairs."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple | list):
        for member in value:
            yield from _iter_members(member)
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from _iter_members(member)


_child_fields: dict[type[Node], tuple[str, ...]] = {}


def _list_child_fields(kind: type[Node]) -> tuple[str, ...]:
    if kind not in _child_fields:
        listed = (field.name for field in fields(kind))
        _child_fields[kind] = tuple(name for name in listed if name not in ("start", "end"))
    return _child_fields[kind]
