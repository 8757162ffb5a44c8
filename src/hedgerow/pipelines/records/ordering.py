"""The order of a family's records. Pure."""

from collections.abc import Mapping
from itertools import islice

from hedgerow.pipelines.model import INT32_MAX, RecordId


def renumber(
    current: Mapping[RecordId, int], requested: Mapping[RecordId, int]
) -> dict[RecordId, int]:
    """Return a new order for every record, without gaps, from the smallest order in use.

    The records in `requested` go to their new positions; the others fill the free positions in
    their previous order.
    """
    if not current:
        return {}
    named = {id: position for id, position in requested.items() if id in current}
    others = sorted(current.keys() - named.keys(), key=lambda id: (current[id], id))
    lowest = min([*named.values(), *(current.values() if others else ())])
    first = min(lowest, INT32_MAX - len(current) + 1)
    positions: dict[int, RecordId] = {}
    overflow, following = [], 0
    for id in sorted(named, key=lambda id: (named[id], id)):
        position = max(min(max(named[id] - first, 0), len(current) - 1), following)
        if position < len(current):
            positions[position] = id
        else:
            overflow.append(id)
        following = position + 1
    below = (position for position in range(len(current) - 1, -1, -1) if position not in positions)
    positions |= dict(zip(list(islice(below, len(overflow))), overflow, strict=True))
    free = (position for position in range(len(current)) if position not in positions)
    positions |= dict(zip(free, others, strict=True))
    return {id: first + position for position, id in positions.items()}


def free_last_position(current: Mapping[RecordId, int]) -> dict[RecordId, int]:
    """Return new orders for the records that must move down to free the highest order."""
    negated = {id: -position for id, position in current.items()}
    return {id: -position for id, position in free_position(negated, -INT32_MAX).items()}


def free_position(current: Mapping[RecordId, int], order: int) -> dict[RecordId, int]:
    """Return new orders for the records that must move up to free `order`: the unbroken run that
    begins there."""
    by_order: dict[int, list[RecordId]] = {}
    for id, position in current.items():
        by_order.setdefault(position, []).append(id)
    moved: dict[RecordId, int] = {}
    position = order
    while position in by_order:
        moved |= dict.fromkeys(by_order[position], position + 1)
        position += 1
    return moved
