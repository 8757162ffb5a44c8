"""Going over trees: what is in one, and one made from another."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from hedgerow.hogql.ast import (
    Call,
    Expr,
    Field,
    Lambda,
    Node,
    Placeholder,
    SelectQuery,
    SelectSet,
    WindowFunction,
)
from hedgerow.hogql.errors import HogQLError, did_you_mean, shown
from hedgerow.hogql.functions import is_aggregate

# How high a tree may stand. What walks over trees does so by calling itself.
MAX_HEIGHT = 110

_Tree = TypeVar("_Tree", bound=Node)


def children(node: Node) -> Iterator[Node]:
    """The nodes right below this one."""
    for name in _child_names(type(node)):
        yield from _members(getattr(node, name))


def nodes(tree: Node) -> Iterator[Node]:
    """This node and all below it, but nothing of the queries inside."""
    waiting: list[Node] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, SelectQuery | SelectSet):
            waiting.extend(children(node))


def check_height(tree: Node) -> None:
    """Refuses a tree that stands too high: a long sum leans to the left, level by level."""
    level: list[Node] = [tree]
    for _ in range(MAX_HEIGHT):
        level = [below for node in level for below in children(node)]
        if not level:
            return
    raise HogQLError(
        f"The query has more than {MAX_HEIGHT} operations one on another", start=level[0].start
    )


def aggregates(expr: Node) -> bool:
    """Whether the expression computes over many rows. Queries inside it do not count."""
    waiting: list[Node] = [expr]
    while waiting:
        node = waiting.pop()
        if isinstance(node, SelectQuery | SelectSet):
            continue
        if isinstance(node, Call) and is_aggregate(node.name):
            return True
        if isinstance(node, WindowFunction):
            waiting.extend(node.args)
            continue
        waiting.extend(children(node))
    return False


def plain_fields(expr: Node) -> Iterator[Field]:
    """The fields that are not inside an aggregation, a lambda or a query."""
    waiting: list[Node] = [expr]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Field):
            yield node
        is_closed = isinstance(node, SelectQuery | SelectSet | Lambda)
        if not is_closed and not (isinstance(node, Call) and is_aggregate(node.name)):
            waiting.extend(children(node))


def replaced(tree: _Tree, values: Mapping[str, Expr]) -> _Tree:
    """The tree with its placeholders replaced, each by the expression of its name. The name of
    `{a.b}` is "a.b"."""

    def value(node: Node) -> Node:
        if not isinstance(node, Placeholder):
            return node
        name = ".".join(node.chain)
        if name not in values:
            raise HogQLError(
                f"No value was given for the placeholder {shown(name)}",
                start=node.start,
                hint=did_you_mean(name, values),
            )
        return values[name]

    found = rebuilt(tree, value)
    check_height(found)
    return found


def rebuilt(tree: _Tree, change: Callable[[Node], Node]) -> _Tree:
    """The tree with each node changed, from the leaves up. What does not change is shared."""
    changes: dict[str, Any] = {}
    for name in _child_names(type(tree)):
        before = getattr(tree, name)
        after = _rebuilt_member(before, change)
        if after is not before:
            changes[name] = after
    return change(replace(tree, **changes) if changes else tree)  # type: ignore[return-value]


def _rebuilt_member(value: object, change: Callable[[Node], Node]) -> object:
    if isinstance(value, Node):
        return rebuilt(value, change)
    if isinstance(value, tuple | list):
        after = tuple(_rebuilt_member(member, change) for member in value)
        same = all(new is old for new, old in zip(after, value, strict=True))
        return value if same else after
    if isinstance(value, Mapping):
        return {name: _rebuilt_member(member, change) for name, member in value.items()}
    return value


def _members(value: object) -> Iterator[Node]:
    """The nodes in a sequence, a mapping, or a sequence of pairs."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple | list):
        for member in value:
            yield from _members(member)
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from _members(member)


_names: dict[type[Node], tuple[str, ...]] = {}


def _child_names(kind: type[Node]) -> tuple[str, ...]:
    if kind not in _names:
        listed = (field.name for field in fields(kind))
        _names[kind] = tuple(name for name in listed if name not in ("start", "end"))
    return _names[kind]
