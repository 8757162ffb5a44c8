"""Response bodies of /decide and /flags, in each of their versions.

The bytes of one outcome never change, so they are rendered once and cached on the outcome; a
response joins them.
"""

import uuid
from datetime import datetime
from enum import StrEnum
from functools import cache
from itertools import count

from hedgerow.flags.evaluation.decide import FlagDecision
from hedgerow.flags.model import FlagOutcome
from hedgerow.lib import jsonio


class DecideFormat(StrEnum):
    """The four response formats, by the version of /decide that introduced each."""

    KEYS = "1"
    ON = "2"
    VALUES = "3"
    DETAILS = "4"


_ERRORS = {True: b"true", False: b"false"}
# A request id is a random prefix per process and a counter: a new UUID takes as long as ten flags.
_numbers = count(1)


def render_decision(
    decision: FlagDecision,
    format: DecideFormat,
    config: bytes,
    evaluated_at: datetime | None = None,
) -> bytes:
    """`config` holds the rendered fields of the SDK configuration; empty to leave it out."""
    outcomes = decision.outcomes
    match format:
        case DecideFormat.KEYS:
            on = [jsonio.encode(each.flag.key) for each in outcomes if each.value is not False]
            flags = b'"featureFlags":[%s]' % b",".join(on)
        case DecideFormat.ON:
            on = [_render_value(each) for each in outcomes if each.value is not False]
            flags = b'"featureFlags":{%s}' % b",".join(on)
        case DecideFormat.VALUES:
            flags = _render_values(decision)
        case DecideFormat.DETAILS:
            flags = b'"flags":{%s}' % b",".join([_render_detail(each) for each in outcomes])
    when = b"" if evaluated_at is None else b',"evaluatedAt":%d' % (evaluated_at.timestamp() * 1000)
    return b'{%s,"errorsWhileComputingFlags":%s%s%s,"requestId":"%s%012x"}' % (
        flags,
        _ERRORS[decision.has_errors],
        config,
        when,
        _random_prefix(),
        next(_numbers),
    )


def _render_values(decision: FlagDecision) -> bytes:
    """Render every flag with its value. Leave out a flag that could not be computed, so that the
    client keeps its last value."""
    outcomes = decision.outcomes
    if decision.has_errors:
        outcomes = [each for each in outcomes if not each.error]
    payloads = [
        each.payload_part or _render_payload(each) for each in outcomes if each.payload is not None
    ]
    return b'"featureFlags":{%s},"featureFlagPayloads":{%s}' % (
        b",".join([each.value_part or _render_value(each) for each in outcomes]),
        b",".join(payloads),
    )


def _render_value(outcome: FlagOutcome) -> bytes:
    part = jsonio.encode(outcome.flag.key) + b":" + jsonio.encode(outcome.value)
    outcome.value_part = part
    return part


def _render_payload(outcome: FlagOutcome) -> bytes:
    part = jsonio.encode(outcome.flag.key) + b":" + jsonio.encode(outcome.payload)
    outcome.payload_part = part
    return part


def _render_detail(outcome: FlagOutcome) -> bytes:
    found = outcome.detail_part
    if found is None:
        flag = outcome.flag
        detail = {
            "key": flag.key,
            "enabled": outcome.value is not False,
            "variant": outcome.variant,
            "reason": {
                "code": outcome.reason.value,
                "condition_index": outcome.condition_index,
                "description": outcome.error or outcome.reason.description(outcome.condition_index),
            },
            "metadata": {
                "id": flag.id,
                "version": flag.version,
                "description": None,
                "payload": outcome.payload,
            },
        }
        if outcome.error:
            detail["failed"] = True
        found = jsonio.encode(flag.key) + b":" + jsonio.encode(detail)
        outcome.detail_part = found
    return found


@cache
def _random_prefix() -> bytes:
    """Drawn on first use, so that each forked process gets its own."""
    return str(uuid.uuid4())[:24].encode()
