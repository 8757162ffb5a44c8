from hypothesis import given
from hypothesis import strategies as st

from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.records.ordering import free_position, renumber
from tests.unit.generated import bounded

IDS = st.integers(1, 30).map(RecordId)
PLACES = st.dictionaries(IDS, st.integers(-20, 20), max_size=12)
DISTINCT = st.lists(st.integers(-20, 20), unique=True, max_size=12).map(
    lambda orders: {RecordId(n): place for n, place in enumerate(orders, 1)}
)


@bounded
@given(current=PLACES, requested=PLACES)
def test_rearrange_keeps_every_record_and_leaves_no_gap(
    current: dict[RecordId, int], requested: dict[RecordId, int]
) -> None:
    orders = renumber(current, requested)
    assert orders.keys() == current.keys()
    numbers = sorted(orders.values())
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True


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
