"""Encryption of secrets that must be stored and used again."""

from collections.abc import Sequence
from typing import Any, Protocol

from hedgerow.lib import jsonio
from hedgerow.lib.optional_packages import LazyPackage

fernet = LazyPackage("cryptography.fernet")


class DecryptionError(Exception):
    """None of the keys decrypts the value."""


class Cipher(Protocol):
    """Encrypts a JSON value to text and back."""

    def encrypt(self, value: Any) -> str: ...
    def decrypt(self, encrypted: str) -> Any: ...


def generate_encryption_key() -> str:
    return str(fernet.Fernet.generate_key().decode())


class EncryptionKeys(Cipher):
    """Encrypts with the first key and decrypts with any: put a new key in front to rotate."""

    def __init__(self, keys: Sequence[str]) -> None:
        """Raise ValueError if one of them is not a valid key."""
        self._fernet = fernet.MultiFernet([fernet.Fernet(key) for key in keys])

    def encrypt(self, value: Any) -> str:
        return str(self._fernet.encrypt(jsonio.encode(value)).decode())

    def decrypt(self, encrypted: str) -> Any:
        try:
            return jsonio.parse(self._fernet.decrypt(encrypted.encode()))
        except fernet.InvalidToken:
            raise DecryptionError from None
