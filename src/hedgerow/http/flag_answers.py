"""What /decide and /flags answer, in each of their versions.

An outcome's part of an answer is always the same bytes, so it is written once and kept with the
outcome; an answer is those parts put together.
"""

import uuid
from datetime import datetime
from enum import StrEnum
from functools import cache
from itertools import count

from hedgerow.flags.decide import Decision
from hedgerow.flags.model import Outcome
from hedgerow.lib import jsonio


class Form(StrEnum):
    """The four shapes of an answer, by the version of /decide that introduced each."""

    KEYS = "1"
    ON = "2"
    VALUES = "3"
    DETAILS = "4"


_ERRORS = {True: b"true", False: b"false"}
# An answer's id is random for each process and counts on from there: a UUID made anew each time
# takes as long as ten flags.
_numbers = count(1)


def answer(
    decision: Decision, form: Form, config: bytes, evaluated_at: datetime | None = None
) -> bytes:
    """`config` is what SDKs read besides flags, if they are to be told."""
    outcomes = decision.outcomes
    match form:
        case Form.KEYS:
            on = [jsonio.encode(each.flag.key) for each in outcomes if each.value is not False]
            flags = b'"featureFlags":[%s]' % b",".join(on)
        case Form.ON:
            on = [_value(each) for each in outcomes if each.value is not False]
            flags = b'"featureFlags":{%s}' % b",".join(on)
        case Form.VALUES:
            flags = _values(decision)
        case Form.DETAILS:
            flags = b'"flags":{%s}' % b",".join([_detail(each) for each in outcomes])
    when = b"" if evaluated_at is None else b',"evaluatedAt":%d' % (evaluated_at.timestamp() * 1000)
    return b'{%s,"errorsWhileComputingFlags":%s%s%s,"requestId":"%s%012x"}' % (
        flags,
        _ERRORS[decision.has_errors],
        config,
        when,
        _process_part(),
        next(_numbers),
    )


def _values(decision: Decision) -> bytes:
    """Every flag with its value; one that could not be computed is left out, so that a client
    keeps what it knew."""
    told = decision.outcomes
    if decision.has_errors:
        told = [each for each in told if not each.error]
    payloads = [each.payload_part or _payload(each) for each in told if each.payload is not None]
    return b'"featureFlags":{%s},"featureFlagPayloads":{%s}' % (
        b",".join([each.value_part or _value(each) for each in told]),
        b",".join(payloads),
    )


def _value(outcome: Outcome) -> bytes:
    part = jsonio.encode(outcome.flag.key) + b":" + jsonio.encode(outcome.value)
    outcome.value_part = part
    return part


def _payload(outcome: Outcome) -> bytes:
    part = jsonio.encode(outcome.flag.key) + b":" + jsonio.encode(outcome.payload)
    outcome.payload_part = part
    return part


def _detail(outcome: Outcome) -> bytes:
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
def _process_part() -> bytes:
    """Drawn when it is first needed: a process that is forked before then has one of its own."""
    return str(uuid.uuid4())[:24].encode()
