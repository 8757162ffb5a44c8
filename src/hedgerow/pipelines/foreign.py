"""Transformations of packages run in a process apart: one that hangs or crashes takes nobody along.

The event is left as it was, as after any other failure. Everybody's events wait for it, so that
afterwards the transformation is left out for a while, longer each time.
"""

import time
from collections.abc import Mapping
from itertools import count
from typing import Any, Literal

import msgspec

from hedgerow.lib.apart import Apart, Lost
from hedgerow.pipelines.transforming import CannotTransform, Incoming, Transform

HOST = "hedgerow.pipelines.foreign_host"
# A package is loaded, and a transformation is made, in this time; an event is transformed in this.
START_S = 60.0
ANSWER_S = 5.0
# How long it is left out after that, and how long at most if that happens again and again.
REST_S = 60.0
MAX_REST_S = 3600.0

TOOK_LONG = (
    f"The component took longer than {ANSWER_S:.0f} s, or {START_S:.0f} s to begin, and is left out"
    " for a while"
)
CRASHED = "The component ended its process and is left out for a while"


class Question(msgspec.Struct, array_like=True):
    """What a transformation makes of an event. Before who hears of `number` is asked that for the
    first time, it is told, without an event, which component it is, and its settings."""

    number: int
    event: Incoming | None = None
    key: str = ""
    settings: Mapping[str, Any] | None = None


class Answer(msgspec.Struct, array_like=True):
    """The name and properties of an event that was changed, or why it was not. A number that was
    forgotten is `unknown`."""

    outcome: Literal["same", "dropped", "changed", "failed", "unknown"]
    event: str = ""
    properties: dict[str, Any] = {}
    reason: str = ""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Answer).decode


class Foreign:
    def __init__(self, apart: Apart | None = None) -> None:
        self._apart = apart or Apart(HOST, start_s=START_S, answer_s=ANSWER_S)
        self._numbers = count()

    def transform(self, key: str, settings: Mapping[str, Any]) -> Transform:
        """Of a component with these settings. Nothing of the package runs yet."""
        return _Apart(self._apart, next(self._numbers), key, settings)

    def close(self) -> None:
        self._apart.close()


class _Apart:
    def __init__(self, apart: Apart, number: int, key: str, settings: Mapping[str, Any]) -> None:
        self._apart = apart
        self._number = number
        self._key = key
        self._settings = settings
        # The process that knows us.
        self._known_by = 0
        self._rests_until = 0.0
        self._rest_s = REST_S
        self._why = ""

    def __call__(self, event: Incoming) -> Incoming | None:
        if time.monotonic() < self._rests_until:
            raise CannotTransform(self._why)
        try:
            answer = self._answer(event)
        except Lost as lost:
            self._why = TOOK_LONG if lost.late else CRASHED
            self._rests_until = time.monotonic() + self._rest_s
            self._rest_s = min(2 * self._rest_s, MAX_REST_S)
            raise CannotTransform(self._why) from None
        self._rest_s = REST_S
        match answer.outcome:
            case "same":
                return event
            case "dropped":
                return None
            case "failed":
                raise CannotTransform(answer.reason)
        return Incoming(
            uuid=event.uuid,
            event=answer.event,
            distinct_id=event.distinct_id,
            properties=answer.properties,
            timestamp=event.timestamp,
            accepted_at=event.accepted_at,
        )

    def _answer(self, event: Incoming) -> Answer:
        question = _encode(Question(number=self._number, event=event))
        try:
            answer = self._ask(question)
        except Lost as lost:
            if lost.late:
                raise
            # It may have ended by somebody else's doing. Who ends it will end it again.
            answer = self._ask(question)
        if answer.outcome == "unknown":
            self._known_by = 0
            answer = self._ask(question)
        return answer

    def _ask(self, question: bytes) -> Answer:
        return _decode(self._apart.ask(question, self._introduced))

    def _introduced(self, process: int) -> bytes:
        if self._known_by == process:
            return b""
        self._known_by = process
        return _encode(Question(number=self._number, key=self._key, settings=self._settings))
