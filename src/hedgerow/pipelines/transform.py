"""A project's transformations, one after the other. Pure; it never raises, whatever they do: what
fails leaves the event as it is and is counted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hedgerow.lib import jsonio
from hedgerow.lib.text import storable_text
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.transforming import CannotTransform, Incoming, Transform

REASON_MAX = 500
# As much of it as of one that arrives.
EVENT_MAX = 200
PROPERTIES_BYTES = 1_000_000
# So many different reasons are told of in one turn.
REASONS_TOLD = 5

Applies = Callable[[Incoming], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One record. It concerns the events that it `applies` to, all of them if that is None."""

    record_id: RecordId
    transform: Transform
    applies: Applies | None = None


@dataclass(slots=True, kw_only=True)
class Tally:
    """What a record did to some events. `reasons` says why it failed, each with the first event of
    which that is so."""

    record_id: RecordId
    seen: int = 0
    changed: int = 0
    dropped: int = 0
    failed: int = 0
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def error(self) -> str:
        return next(iter(self.reasons), "")

    def fail(self, reason: str, uuid: str) -> None:
        self.failed += 1
        if len(self.reasons) < REASONS_TOLD:
            self.reasons.setdefault(reason, uuid)


class Chain:
    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = tuple(steps)

    def tallies(self) -> list[Tally]:
        """One for each record, with nothing counted yet."""
        return [Tally(record_id=step.record_id) for step in self._steps]

    def passed(self, event: Incoming, tallies: Sequence[Tally]) -> Incoming | None:
        """What is left of an event after all of them, None if it is dropped."""
        for step, tally in zip(self._steps, tallies, strict=True):
            try:
                if step.applies is not None and not step.applies(event):
                    continue
                tally.seen += 1
                after = step.transform(event)
            except BaseException as error:  # noqa: BLE001 - no Ctrl-C comes here: we are in a thread
                tally.fail(reason_of(error), event.uuid)
                continue
            if after is None:
                tally.dropped += 1
                return None
            if after is not event:
                tally.changed += 1
                event = after
        return event


def guarded(transform: Transform) -> Transform:
    """Of somebody else's component: it gets a copy, and what it answers is looked at."""

    def run(event: Incoming) -> Incoming | None:
        before = jsonio.encode(event.properties)
        after: Any = transform(event.having(jsonio.decode(before)))
        if after is None:
            return None
        if not isinstance(after, Incoming) or not isinstance(after.properties, dict):
            raise CannotTransform("The component answered with something that is no event")
        # Written and read again, so that what looks like text or a dictionary is one.
        name: Any = jsonio.decode(jsonio.encode(after.event))
        if not isinstance(name, str) or not 0 < len(name) <= EVENT_MAX:
            raise CannotTransform(f"An event's name has 1 to {EVENT_MAX} characters")
        written = jsonio.encode(after.properties)
        if len(written) > max(PROPERTIES_BYTES, len(before)):
            raise CannotTransform("The component made the event too large to be stored")
        if name == event.event and written == before:
            return event
        return Incoming(
            uuid=event.uuid,
            event=storable_text(name),
            distinct_id=event.distinct_id,
            properties=jsonio.storable(jsonio.parse(written)),
            timestamp=event.timestamp,
            accepted_at=event.accepted_at,
        )

    return run


def failing(problem: str) -> Transform:
    """Of a record whose settings cannot be used."""

    def run(_: Incoming) -> Incoming:
        raise CannotTransform(problem)

    return run


def reason_of(error: BaseException) -> str:
    if type(error) is not CannotTransform:
        return f"The component failed: {type(error).__name__}"
    said = error.args[0] if error.args and isinstance(error.args[0], str) else ""
    return storable_text(said[:REASON_MAX]) or "The component failed"
