import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.lib.sealing import CannotUnseal, SealingKeys, new_sealing_key
from tests.unit.generated import bounded

OLD, NEW = new_sealing_key(), new_sealing_key()

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=5,
)


@bounded
@given(VALUES)
def test_what_is_sealed_comes_back_as_it_was(value: object) -> None:
    keys = SealingKeys([OLD])
    assert keys.unseal(keys.seal(value)) == value


def test_a_sealed_value_shows_nothing_and_never_looks_the_same_twice() -> None:
    keys = SealingKeys([OLD])
    first, second = keys.seal("hunter2"), keys.seal("hunter2")
    assert first != second
    assert "hunter2" not in first + second


def test_after_a_rotation_old_values_open_and_new_ones_need_the_new_key() -> None:
    before = SealingKeys([OLD]).seal("then")
    rotated = SealingKeys([NEW, OLD])
    assert rotated.unseal(before) == "then"
    assert SealingKeys([NEW]).unseal(rotated.seal("now")) == "now"
    with pytest.raises(CannotUnseal):
        SealingKeys([OLD]).unseal(rotated.seal("now"))


@pytest.mark.parametrize("sealed", ["", "x", "hunter2", "🪝", "gAAAAA=="])
def test_what_was_never_sealed_does_not_open(sealed: str) -> None:
    with pytest.raises(CannotUnseal):
        SealingKeys([OLD]).unseal(sealed)


def test_the_wrong_key_does_not_open_and_says_nothing_of_the_value() -> None:
    with pytest.raises(CannotUnseal) as raised:
        SealingKeys([NEW]).unseal(SealingKeys([OLD]).seal("hunter2"))
    assert "hunter2" not in repr(raised.value)


@pytest.mark.parametrize("keys", [[], [""], ["short"], [OLD, "short"], ["🪝" * 32]])
def test_what_is_no_key_is_refused(keys: list[str]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the library's own words
        SealingKeys(keys)
