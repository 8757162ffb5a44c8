"""Things behind those that they need."""

from collections.abc import Hashable, Mapping, Set
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def in_order(needs: Mapping[T, Set[T]]) -> tuple[list[T], set[T]]:
    """All of them, the needed ones first, and apart from them those that need each other in a
    circle. What is needed and not there is passed over."""
    left = {id: {need for need in needed if need in needs} for id, needed in needs.items()}
    circular: set[T] = set()
    while True:
        try:
            return list(TopologicalSorter(left).static_order()), circular
        except CycleError as error:
            found = set(error.args[1])
            circular |= found
            left = {id: needed - found for id, needed in left.items() if id not in found}
