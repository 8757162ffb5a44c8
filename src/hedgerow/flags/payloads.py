"""Encrypt the payloads of a flag for storage, and redact them in responses."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hedgerow.errors import Conflict
from hedgerow.filters.validate import raise_invalid
from hedgerow.flags.model import REDACTED, Flag
from hedgerow.lib.encryption import Cipher, DecryptionError


def get_payloads(filters: Any) -> Mapping[str, Any]:
    """Return the payloads of stored filters, which may be invalid."""
    payloads = filters.get("payloads") if isinstance(filters, Mapping) else None
    return payloads if isinstance(payloads, Mapping) else {}


def redact_filters(flag: Flag) -> Any:
    """Return the filters with encrypted payloads redacted."""
    if not flag.has_encrypted_payloads:
        return flag.filters
    return _with_payloads(flag.filters, lambda _: REDACTED)


def decrypt_payload(flag: Flag, cipher: Cipher) -> Any:
    payload = get_payloads(flag.filters).get("true")
    if payload is None or not flag.has_encrypted_payloads:
        return payload
    try:
        return cipher.decrypt(str(payload))
    except DecryptionError:
        raise Conflict(
            "The payload cannot be decrypted with the configured encryption keys. "
            "Add the key with which it was encrypted."
        ) from None


def encrypt_payloads(before: Flag, after: Flag, cipher: Cipher) -> Flag:
    """Encrypt the payloads if the flag requires it. A redacted payload keeps its stored value."""
    stored = get_payloads(before.filters) if before.has_encrypted_payloads else {}
    payloads = get_payloads(after.filters)
    if not after.has_encrypted_payloads:
        if any(payloads.get(name) in (REDACTED, kept) for name, kept in stored.items()):
            raise_invalid(
                "has_encrypted_payloads",
                "Encrypted payloads cannot be made public. Send new payloads with this change.",
            )
        return after

    def encrypt(name: str) -> Any:
        payload = payloads[name]
        if name in stored and payload in (REDACTED, stored[name]):
            return stored[name]
        if payload == REDACTED:
            raise_invalid(
                f"filters.payloads.{name}",
                "There is no stored payload to keep. Send the payload itself.",
            )
        return cipher.encrypt(payload)

    return replace(after, filters=_with_payloads(after.filters, encrypt))


def _with_payloads(filters: Any, change: Callable[[str], Any]) -> Any:
    payloads = get_payloads(filters)
    return (
        {**filters, "payloads": {name: change(name) for name in payloads}} if payloads else filters
    )
