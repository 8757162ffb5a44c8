"""Read parts of documents that other services wrote, and sort items by dependency. Pure.

A part that is missing or of another type counts as empty.
"""

from collections.abc import Hashable, Mapping, Set
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeVar

Item = Mapping[str, Any]
T = TypeVar("T", bound=Hashable)


def get_object(item: Item, name: str) -> Item:
    """Return the object in a field, or an empty one."""
    value = item.get(name)
    return value if isinstance(value, Mapping) else {}


def get_objects(item: Item, name: str) -> list[Item]:
    """Return the objects of the list in a field."""
    return [each for each in get_list(item, name) if isinstance(each, Mapping)]


def get_list(item: Item, name: str) -> list[Any]:
    value = item.get(name)
    return value if isinstance(value, list) else []


def parse_id(value: Any) -> int:
    """Return an id, which may be a string; 0 if it is not an id."""
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0


def sort_by_dependency(dependencies: Mapping[T, Set[T]]) -> tuple[list[T], set[T]]:
    """Return the items with dependencies first, and the items of cycles, which are left out.

    Unknown dependencies are ignored.
    """
    graph = {
        id: {each for each in needed if each in dependencies} for id, needed in dependencies.items()
    }
    cyclic: set[T] = set()
    while True:
        try:
            return list(TopologicalSorter(graph).static_order()), cyclic
        except CycleError as error:
            cycle = set(error.args[1])
            cyclic |= cycle
            graph = {id: needed - cycle for id, needed in graph.items() if id not in cycle}
