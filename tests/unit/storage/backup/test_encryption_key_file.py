from pathlib import Path

from hedgerow.lib.encryption import EncryptionKeys, generate_encryption_key
from hedgerow.storage.backup.encryption_key_file import (
    FILE_NAME,
    OLD_FILE_NAME,
    find_key_file,
    load_encryption_keys,
)


def test_new_installation_creates_a_private_key_file(tmp_path: Path) -> None:
    encrypted = load_encryption_keys("", tmp_path).encrypt("secret")
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert load_encryption_keys("", tmp_path).decrypt(encrypted) == "secret"


def test_old_key_file_is_still_used(tmp_path: Path) -> None:
    key = generate_encryption_key()
    (tmp_path / OLD_FILE_NAME).write_text(key + "\n")
    encrypted = EncryptionKeys([key]).encrypt("secret")
    assert load_encryption_keys("", tmp_path).decrypt(encrypted) == "secret"
    assert [path.name for path in tmp_path.iterdir()] == [OLD_FILE_NAME]


def test_new_key_file_takes_precedence_over_the_old_one(tmp_path: Path) -> None:
    for name in (OLD_FILE_NAME, FILE_NAME):
        (tmp_path / name).write_text(generate_encryption_key() + "\n")
    assert find_key_file(tmp_path) == tmp_path / FILE_NAME


def test_configured_keys_need_no_file(tmp_path: Path) -> None:
    load_encryption_keys(generate_encryption_key(), tmp_path)
    assert list(tmp_path.iterdir()) == []
