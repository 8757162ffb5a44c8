"""A flag's payloads: sealed where they are stored if the flag wants that, and then redacted
wherever they are shown.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from hedgerow.errors import Conflict
from hedgerow.filters.rules import refuse
from hedgerow.flags.model import REDACTED, Flag
from hedgerow.lib.sealing import CannotUnseal


class Sealer(Protocol):
    def seal(self, value: Any) -> str: ...
    def unseal(self, sealed: str) -> Any: ...


def payloads_of(filters: Any) -> Mapping[str, Any]:
    """The payloads of whatever was stored."""
    payloads = filters.get("payloads") if isinstance(filters, Mapping) else None
    return payloads if isinstance(payloads, Mapping) else {}


def shown_filters(flag: Flag) -> Any:
    """The definition as it may be shown: sealed payloads are not."""
    if not flag.has_encrypted_payloads:
        return flag.filters
    return _with_payloads(flag.filters, lambda _: REDACTED)


def payload_in_the_clear(flag: Flag, sealer: Sealer) -> Any:
    payload = payloads_of(flag.filters).get("true")
    if payload is None or not flag.has_encrypted_payloads:
        return payload
    try:
        return sealer.unseal(str(payload))
    except CannotUnseal:
        raise Conflict(
            "This payload was sealed with a key that is not here. Bring the key back."
        ) from None


def sealed(before: Flag, after: Flag, sealer: Sealer) -> Flag:
    """With encrypted payloads sealed; one that is shown as redacted and sent back stays."""
    stored = payloads_of(before.filters) if before.has_encrypted_payloads else {}
    payloads = payloads_of(after.filters)
    if not after.has_encrypted_payloads:
        if any(payloads.get(name) in (REDACTED, kept) for name, kept in stored.items()):
            refuse(
                "has_encrypted_payloads",
                "What was encrypted is not made public: send new payloads with this change.",
            )
        return after

    def seal(name: str) -> Any:
        payload = payloads[name]
        if name in stored and payload in (REDACTED, stored[name]):
            return stored[name]
        if payload == REDACTED:
            refuse(f"filters.payloads.{name}", "There is no encrypted payload to keep.")
        return sealer.seal(payload)

    return replace(after, filters=_with_payloads(after.filters, seal))


def _with_payloads(filters: Any, change: Callable[[str], Any]) -> Any:
    payloads = payloads_of(filters)
    return (
        {**filters, "payloads": {name: change(name) for name in payloads}} if payloads else filters
    )
