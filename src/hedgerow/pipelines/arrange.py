"""The order of a family's records: pure arithmetic on numbers."""

from collections.abc import Mapping
from itertools import islice

from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.numbers import INT32_MAX


def dense(current: Mapping[RecordId, int], wanted: Mapping[RecordId, int]) -> dict[RecordId, int]:
    """Every record's new place: those named where they were asked to be, the others around them in
    the order they had, numbered without a hole from the smallest number there is."""
    if not current:
        return {}
    named = {id: place for id, place in wanted.items() if id in current}
    others = sorted(current.keys() - named.keys(), key=lambda id: (current[id], id))
    lowest = min([*named.values(), *(current.values() if others else ())])
    first = min(lowest, INT32_MAX - len(current) + 1)
    places: dict[int, RecordId] = {}
    overflow, following = [], 0
    for id in sorted(named, key=lambda id: (named[id], id)):
        place = max(min(max(named[id] - first, 0), len(current) - 1), following)
        if place < len(current):
            places[place] = id
        else:
            overflow.append(id)
        following = place + 1
    below = (place for place in range(len(current) - 1, -1, -1) if place not in places)
    places |= dict(zip(list(islice(below, len(overflow))), overflow, strict=True))
    free = (place for place in range(len(current)) if place not in places)
    places |= dict(zip(free, others, strict=True))
    return {id: first + place for place, id in places.items()}


def with_room_at_the_end(current: Mapping[RecordId, int]) -> dict[RecordId, int]:
    """The new places of the records that must move down so that the highest number is free."""
    mirrored = {id: -place for id, place in current.items()}
    return {id: -place for id, place in with_room_at(mirrored, -INT32_MAX).items()}


def with_room_at(current: Mapping[RecordId, int], order: int) -> dict[RecordId, int]:
    """The new places of the records that must move up so that `order` is free: those in the
    unbroken run that begins there."""
    by_order: dict[int, list[RecordId]] = {}
    for id, place in current.items():
        by_order.setdefault(place, []).append(id)
    moved: dict[RecordId, int] = {}
    place = order
    while place in by_order:
        moved |= dict.fromkeys(by_order[place], place + 1)
        place += 1
    return moved
