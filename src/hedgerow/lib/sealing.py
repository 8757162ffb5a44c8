"""Values sealed with a key, for secrets that must be kept and used again.

The newest key seals; all keys unseal, so a key is rotated by putting a new one in front.
"""

from collections.abc import Sequence
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from hedgerow.lib import jsonio


class CannotUnseal(Exception):
    """None of the keys opens the value."""


def new_sealing_key() -> str:
    return Fernet.generate_key().decode()


class SealingKeys:
    def __init__(self, keys: Sequence[str]) -> None:
        """ValueError when one of them is no key."""
        self._fernet = MultiFernet([Fernet(key) for key in keys])

    def seal(self, value: Any) -> str:
        return self._fernet.encrypt(jsonio.encode(value)).decode()

    def unseal(self, sealed: str) -> Any:
        try:
            return jsonio.parse(self._fernet.decrypt(sealed.encode()))
        except InvalidToken:
            raise CannotUnseal from None
