import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.lib.encryption import DecryptionError, EncryptionKeys, generate_encryption_key
from tests.unit.generated import bounded

OLD, NEW = generate_encryption_key(), generate_encryption_key()

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
def test_decryption_restores_the_value(value: object) -> None:
    keys = EncryptionKeys([OLD])
    assert keys.decrypt(keys.encrypt(value)) == value


def test_encrypted_value_is_opaque_and_never_the_same_twice() -> None:
    keys = EncryptionKeys([OLD])
    first, second = keys.encrypt("hunter2"), keys.encrypt("hunter2")
    assert first != second
    assert "hunter2" not in first + second


def test_rotation_keeps_old_values_readable() -> None:
    before = EncryptionKeys([OLD]).encrypt("then")
    rotated = EncryptionKeys([NEW, OLD])
    assert rotated.decrypt(before) == "then"
    assert EncryptionKeys([NEW]).decrypt(rotated.encrypt("now")) == "now"
    with pytest.raises(DecryptionError):
        EncryptionKeys([OLD]).decrypt(rotated.encrypt("now"))


@pytest.mark.parametrize("encrypted", ["", "x", "hunter2", "🪝", "gAAAAA=="])
def test_foreign_value_is_not_decrypted(encrypted: str) -> None:
    with pytest.raises(DecryptionError):
        EncryptionKeys([OLD]).decrypt(encrypted)


def test_wrong_key_reveals_nothing() -> None:
    with pytest.raises(DecryptionError) as raised:
        EncryptionKeys([NEW]).decrypt(EncryptionKeys([OLD]).encrypt("hunter2"))
    assert "hunter2" not in repr(raised.value)


@pytest.mark.parametrize("keys", [[], [""], ["short"], [OLD, "short"], ["🪝" * 32]])
def test_invalid_key_is_refused(keys: list[str]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the library's own words
        EncryptionKeys(keys)
