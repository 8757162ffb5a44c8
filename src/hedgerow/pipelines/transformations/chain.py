"""The chain of a project's transformations. Pure. It never raises: a transformation that fails
leaves the event unchanged and is counted. So do those that are left when an event has taken too
long.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hedgerow.lib import jsonio
from hedgerow.lib.optional_packages import name_error
from hedgerow.lib.text import replace_unstorable_characters
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.secret_mask import SecretMask
from hedgerow.plugin.transform import IncomingEvent, Transform, TransformError

REASON_MAX = 500
# The limits of captured events.
EVENT_NAME_MAX = 200
MAX_PROPERTIES_BYTES = 1_000_000
# All transformations of a project together, for one event.
EVENT_BUDGET_S = 0.25
OVER_BUDGET = (
    f"The transformations of this project take longer than {EVENT_BUDGET_S:g} s for an event. Use"
    " fewer of them, or fewer and shorter patterns"
)
# Distinct reasons kept for one batch.
MAX_REASONS = 5

TransformationFilter = Callable[[IncomingEvent], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainStep:
    """The transformation of one record. Without a `filter` it applies to every event. `mask` hides
    the secrets of the record in reasons."""

    record_id: RecordId
    transform: Transform
    filter: TransformationFilter | None = None
    mask: SecretMask = field(default_factory=SecretMask)


@dataclass(slots=True, kw_only=True)
class TransformationCounts:
    """Counts of one record for a batch of events. `reasons` maps each failure to the uuid of the
    first event that had it."""

    record_id: RecordId
    matched: int = 0
    changed: int = 0
    dropped: int = 0
    failed: int = 0
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def error(self) -> str:
        return next(iter(self.reasons), "")

    def fail(self, reason: str, uuid: str) -> None:
        self.failed += 1
        if len(self.reasons) < MAX_REASONS:
            self.reasons.setdefault(reason, uuid)


class TransformationChain:
    def __init__(self, steps: Sequence[ChainStep]) -> None:
        self._steps = tuple(steps)

    def new_counts(self) -> list[TransformationCounts]:
        """Return empty counts, one per record."""
        return [TransformationCounts(record_id=step.record_id) for step in self._steps]

    def apply(
        self,
        event: IncomingEvent,
        counts: Sequence[TransformationCounts],
        read_time_s: Callable[[], float],
    ) -> IncomingEvent | None:
        """Apply all transformations to an event; None if one of them drops it."""
        ends = read_time_s() + EVENT_BUDGET_S
        for step, count in zip(self._steps, counts, strict=True):
            if read_time_s() > ends:
                count.fail(OVER_BUDGET, event.uuid)
                continue
            try:
                if step.filter is not None and not step.filter(event):
                    continue
                count.matched += 1
                after = step.transform(event)
            except BaseException as error:  # noqa: BLE001 - runs in a thread, which Ctrl-C does not reach
                count.fail(step.mask.apply(describe_failure(error)), event.uuid)
                continue
            if after is None:
                count.dropped += 1
                return None
            if after is not event:
                count.changed += 1
                event = after
        return event


def guard_transform(transform: Transform) -> Transform:
    """Wrap the transformation of a package: it receives a copy, and its result is checked."""

    def run(event: IncomingEvent) -> IncomingEvent | None:
        before = jsonio.encode(event.properties)
        after: Any = transform(event.with_properties(jsonio.decode(before)))
        if after is None:
            return None
        if not isinstance(after, IncomingEvent) or not isinstance(after.properties, dict):
            raise TransformError("The component returned something that is not an event")
        # Encoded and decoded, so that subclasses of str and dict become plain ones.
        name: Any = jsonio.decode(jsonio.encode(after.event))
        if not isinstance(name, str) or not 0 < len(name) <= EVENT_NAME_MAX:
            raise TransformError(
                f"The component returned an event name without 1 to {EVENT_NAME_MAX} characters"
            )
        written = jsonio.encode(after.properties)
        if len(written) > max(MAX_PROPERTIES_BYTES, len(before)):
            raise TransformError("The component returned an event that is too large to store")
        if name == event.event and written == before:
            return event
        return IncomingEvent(
            uuid=event.uuid,
            event=replace_unstorable_characters(name),
            distinct_id=event.distinct_id,
            properties=jsonio.replace_unstorable(jsonio.parse(written)),
            timestamp=event.timestamp,
            accepted_at=event.accepted_at,
        )

    return run


def fail_always(problem: str) -> Transform:
    """Return a transformation that always fails, for a record with unusable settings."""

    def run(_: IncomingEvent) -> IncomingEvent:
        raise TransformError(problem)

    return run


def describe_failure(error: BaseException) -> str:
    if type(error) is not TransformError:
        return f"The component failed: {name_error(error)}"
    message = error.args[0] if error.args and isinstance(error.args[0], str) else ""
    return replace_unstorable_characters(message[:REASON_MAX]) or "The component failed"
