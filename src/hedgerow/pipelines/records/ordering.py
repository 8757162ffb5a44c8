"""The order of a family's records. Pure."""

from collections.abc import Iterable, Mapping
from itertools import chain, count

from hedgerow.pipelines.model import INT32_MAX, INT32_MIN, RecordId


def renumber(
    current: Mapping[RecordId, int], requested: Mapping[RecordId, int]
) -> dict[RecordId, int]:
    """Return a new order for every record, all different.

    The records in `requested` get their new orders, of several equal ones the following ones. The
    others keep theirs, unless one of these is taken: then they fill the orders in use that are
    still free, in their previous sequence.
    """
    named = _make_distinct({id: order for id, order in requested.items() if id in current})
    others = sorted(current.keys() - named.keys(), key=lambda id: (current[id], id))
    orders: Iterable[int] = [current[id] for id in others]
    taken = set(named.values())
    if len(taken.union(orders)) < len(current):
        in_use = taken | set(current.values())
        orders = chain(sorted(in_use - taken), count(max(in_use) + 1))
    return _fit_int32(named | dict(zip(others, orders, strict=False)))


def _make_distinct(orders: Mapping[RecordId, int]) -> dict[RecordId, int]:
    distinct: dict[RecordId, int] = {}
    following = INT32_MIN
    for id in sorted(orders, key=lambda id: (orders[id], id)):
        distinct[id] = max(orders[id], following)
        following = distinct[id] + 1
    return distinct


def _fit_int32(orders: Mapping[RecordId, int]) -> dict[RecordId, int]:
    """Move what is beyond the largest order down, and what is in its way."""
    fitting: dict[RecordId, int] = {}
    limit = INT32_MAX
    for id in sorted(orders, key=lambda id: orders[id], reverse=True):
        fitting[id] = min(orders[id], limit)
        limit = fitting[id] - 1
    return fitting


def free_last_position(current: Mapping[RecordId, int]) -> dict[RecordId, int]:
    """Return new orders for the records that must move down to free the highest order."""
    return _free_downwards(current, INT32_MAX)


def free_position(current: Mapping[RecordId, int], order: int) -> dict[RecordId, int]:
    """Return new orders for the records that must move up to free `order`: the unbroken run that
    begins there. If it ends at the largest order, the run that ends at `order` moves down."""
    moved = _move_run(current, order)
    fits = max(moved.values(), default=order) <= INT32_MAX
    return moved if fits else _free_downwards(current, order)


def _free_downwards(current: Mapping[RecordId, int], order: int) -> dict[RecordId, int]:
    negated = {id: -position for id, position in current.items()}
    return {id: -position for id, position in _move_run(negated, -order).items()}


def _move_run(current: Mapping[RecordId, int], order: int) -> dict[RecordId, int]:
    by_order: dict[int, list[RecordId]] = {}
    for id, position in current.items():
        by_order.setdefault(position, []).append(id)
    moved: dict[RecordId, int] = {}
    position = order
    while position in by_order:
        moved |= dict.fromkeys(by_order[position], position + 1)
        position += 1
    return moved
