from hypothesis import given
from hypothesis import strategies as st

from hedgerow.pipelines.model import INT32_MAX, INT32_MIN, RecordId
from hedgerow.pipelines.records.ordering import free_position, renumber
from tests.unit.generated import bounded

IDS = st.integers(1, 30).map(RecordId)
PLACES = st.dictionaries(IDS, st.integers(-20, 20), max_size=12)
DISTINCT = st.lists(st.integers(-20, 20), unique=True, max_size=12).map(
    lambda orders: {RecordId(n): place for n, place in enumerate(orders, 1)}
)


def _move(orders: dict[RecordId, int], shift: int) -> dict[RecordId, int]:
    return {id: order + shift for id, order in orders.items()}


@bounded
@given(current=PLACES, requested=PLACES, shift=st.sampled_from([0, INT32_MAX - 20, INT32_MIN + 20]))
def test_rearrange_keeps_every_record_and_gives_each_its_own_order(
    current: dict[RecordId, int], requested: dict[RecordId, int], shift: int
) -> None:
    orders = renumber(_move(current, shift), _move(requested, shift))
    assert orders.keys() == current.keys()
    assert len(set(orders.values())) == len(orders)
    assert all(INT32_MIN <= order <= INT32_MAX for order in orders.values())


@bounded
@given(current=DISTINCT, data=st.data())
def test_different_requested_orders_are_applied_exactly(
    current: dict[RecordId, int], data: st.DataObject
) -> None:
    ids = data.draw(st.lists(st.sampled_from(sorted(current)), unique=True)) if current else []
    places = data.draw(
        st.lists(st.integers(-25, 25), unique=True, min_size=len(ids), max_size=len(ids))
    )
    requested = dict(zip(ids, places, strict=True))
    assert renumber(current, requested).items() >= requested.items()


@bounded
@given(current=DISTINCT, data=st.data())
def test_no_record_moves_if_the_requested_order_is_free(
    current: dict[RecordId, int], data: st.DataObject
) -> None:
    id = RecordId(len(current) + 1)
    place = data.draw(st.integers(-25, 25).filter(lambda order: order not in current.values()))
    assert renumber(current | {id: 100}, {id: place}) == current | {id: place}


def test_record_goes_between_others_with_gaps() -> None:
    a, b, c = (RecordId(n) for n in range(1, 4))
    assert renumber({a: 10, b: 20, c: 30}, {c: 15}) == {a: 10, b: 20, c: 15}
    assert renumber({a: 10, b: 20, c: 30}, {c: 20}) == {a: 10, b: 30, c: 20}


@bounded
@given(current=PLACES, requested=PLACES)
def test_unnamed_records_keep_their_order(
    current: dict[RecordId, int], requested: dict[RecordId, int]
) -> None:
    others = sorted((current[id], id) for id in current if id not in requested)
    orders = renumber(current, requested)
    assert [id for _, id in others] == sorted((id for _, id in others), key=orders.__getitem__)


@bounded
@given(current=PLACES, data=st.data())
def test_complete_request_without_gaps_is_applied_exactly(
    current: dict[RecordId, int], data: st.DataObject
) -> None:
    sequence = data.draw(st.permutations(sorted(current)))
    first = data.draw(st.integers(-5, 5))
    requested = {id: first + n for n, id in enumerate(sequence)}
    assert renumber(current, requested) == requested


@bounded
@given(count=st.integers(1, 12), data=st.data())
def test_single_moved_record_gets_the_requested_position(count: int, data: st.DataObject) -> None:
    current = {RecordId(n): n for n in range(1, count + 1)}
    id = data.draw(st.sampled_from(sorted(current)))
    place = data.draw(st.integers(1, count))
    assert renumber(current, {id: place})[id] == place


@bounded
@given(current=DISTINCT, order=st.integers(-25, 25))
def test_freeing_a_position_leaves_no_duplicates(current: dict[RecordId, int], order: int) -> None:
    moved = free_position(current, order)
    after = current | moved
    assert order not in after.values()
    assert len(set(after.values())) == len(after)
    assert sorted(after, key=after.__getitem__) == sorted(current, key=current.__getitem__)
    assert all(moved[id] == current[id] + 1 for id in moved)


@bounded
@given(current=DISTINCT, order=st.integers(-25, 25))
def test_free_position_moves_no_record(current: dict[RecordId, int], order: int) -> None:
    assert (free_position(current, order) == {}) is (order not in current.values())


def test_only_the_unbroken_run_moves() -> None:
    a, b, c, d = (RecordId(n) for n in range(1, 5))
    assert free_position({a: 1, b: 2, c: 3, d: 5}, 2) == {b: 3, c: 4}


def test_run_at_the_largest_order_moves_down() -> None:
    a, b, c = (RecordId(n) for n in range(1, 4))
    current = {a: INT32_MAX - 1, b: INT32_MAX, c: 3}
    assert free_position(current, INT32_MAX) == {a: INT32_MAX - 2, b: INT32_MAX - 1}
    assert free_position(current, INT32_MAX - 1) == {a: INT32_MAX - 2}
