from hypothesis import given
from hypothesis import strategies as st

from hedgerow.pipelines.arrange import dense, with_room_at
from hedgerow.pipelines.model import RecordId
from tests.unit.generated import bounded

IDS = st.integers(1, 30).map(RecordId)
PLACES = st.dictionaries(IDS, st.integers(-20, 20), max_size=12)
DISTINCT = st.lists(st.integers(-20, 20), unique=True, max_size=12).map(
    lambda places: {RecordId(n): place for n, place in enumerate(places, 1)}
)


@bounded
@given(current=PLACES, wanted=PLACES)
def test_a_rearrange_keeps_every_record_and_leaves_no_hole(
    current: dict[RecordId, int], wanted: dict[RecordId, int]
) -> None:
    places = dense(current, wanted)
    assert places.keys() == current.keys()
    numbers = sorted(places.values())
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True


@bounded
@given(current=PLACES, wanted=PLACES)
def test_records_that_nobody_named_stay_in_their_order(
    current: dict[RecordId, int], wanted: dict[RecordId, int]
) -> None:
    others = sorted((current[id], id) for id in current if id not in wanted)
    places = dense(current, wanted)
    assert [id for _, id in others] == sorted((id for _, id in others), key=places.__getitem__)


@bounded
@given(current=PLACES, data=st.data())
def test_a_whole_dense_wish_is_met_to_the_letter(
    current: dict[RecordId, int], data: st.DataObject
) -> None:
    sequence = data.draw(st.permutations(sorted(current)))
    first = data.draw(st.integers(-5, 5))
    wanted = {id: first + n for n, id in enumerate(sequence)}
    assert dense(current, wanted) == wanted


@bounded
@given(count=st.integers(1, 12), data=st.data())
def test_one_record_moved_within_a_dense_family_stands_where_it_was_asked(
    count: int, data: st.DataObject
) -> None:
    current = {RecordId(n): n for n in range(1, count + 1)}
    id = data.draw(st.sampled_from(sorted(current)))
    place = data.draw(st.integers(1, count))
    assert dense(current, {id: place})[id] == place


@bounded
@given(current=DISTINCT, order=st.integers(-25, 25))
def test_room_is_made_without_two_records_at_one_place(
    current: dict[RecordId, int], order: int
) -> None:
    moved = with_room_at(current, order)
    after = current | moved
    assert order not in after.values()
    assert len(set(after.values())) == len(after)
    assert sorted(after, key=after.__getitem__) == sorted(current, key=current.__getitem__)
    assert all(moved[id] == current[id] + 1 for id in moved)


@bounded
@given(current=DISTINCT, order=st.integers(-25, 25))
def test_nobody_moves_for_a_place_that_is_free(current: dict[RecordId, int], order: int) -> None:
    assert (with_room_at(current, order) == {}) is (order not in current.values())


def test_only_the_unbroken_run_moves() -> None:
    a, b, c, d = (RecordId(n) for n in range(1, 5))
    assert with_room_at({a: 1, b: 2, c: 3, d: 5}, 2) == {b: 3, c: 4}
