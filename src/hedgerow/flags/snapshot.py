"""All flags of a project, compiled, at one generation. Evaluating does no I/O and never raises."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hedgerow.flags.compile import Answers, Compiled, compiled, missing_dependency
from hedgerow.flags.model import Definitions, FlagId, Outcome, Runtime
from hedgerow.flags.questions import Questions
from hedgerow.flags.subject import NeedsStored, Subject


class Snapshot:
    """`everything` is every flag that is not deleted, after all that it depends on."""

    def __init__(
        self, definitions: Definitions, flags: Mapping[FlagId, Compiled], questions: Questions
    ) -> None:
        self.definitions = definitions
        self.questions = questions
        self.compiled = flags
        self.everything = _evaluable(flags.values())
        self._by_key = {each.flag.key: each for each in self.everything}
        self._by_id = {each.flag.id: each for each in self.everything}
        self._needed = frozenset(id for each in self.everything for id in each.needs)
        self.has_limits = any(
            each.flag.evaluation_contexts or each.flag.evaluation_runtime is not Runtime.ALL
            for each in self.everything
        )
        self.asks_continuity = tuple(
            each.flag.key
            for each in self.everything
            if each.flag.active and each.flag.ensure_experience_continuity
        )

    def of(self, key: str) -> Compiled | None:
        return self._by_key.get(key)

    def chosen(self, keys: Collection[str]) -> tuple[Compiled, ...]:
        """The flags of these keys and those that they depend on, in the order to evaluate them."""
        waiting = [each for key in keys if (each := self._by_key.get(key)) is not None]
        wanted = {each.flag.id for each in waiting}
        while waiting:
            for id in waiting.pop().needs - wanted:
                wanted.add(id)
                waiting.append(self._by_id[id])
        return tuple(each for each in self.everything if each.flag.id in wanted)

    def evaluate(self, flags: Sequence[Compiled], subject: Subject) -> list[Outcome]:
        """What each of the flags gives. One that waits for stored data is told as failed, and
        `subject.needs_stored` says that there are such."""
        answers: Answers = {}
        outcomes: list[Outcome] = []
        add, needed = outcomes.append, self._needed
        for each in flags:
            try:
                outcome = each.run(subject, answers)
            except NeedsStored:
                subject.needs_stored = True
                outcome = each.failed
            except Exception:  # noqa: BLE001 - what breaks one flag must leave the others right
                outcome = each.failed
            if needed and each.flag.id in needed:
                subject.results[each.flag.id] = outcome
            add(outcome)
        return outcomes


def snapshot_of(definitions: Definitions, before: Snapshot | None = None) -> Snapshot:
    """Compile what is new; take the rest over from the snapshot before."""
    known: Mapping[FlagId, Compiled] = {}
    questions = None
    if before is not None and _same_world(before.definitions, definitions):
        known, questions = before.compiled, before.questions
    if questions is None:
        questions = Questions(definitions.cohorts, _zone(definitions.timezone))
    flags = {}
    for flag in definitions.flags:
        if not flag.deleted:
            same = known.get(flag.id)
            is_same = same is not None and (same.flag is flag or same.flag == flag)
            flags[flag.id] = same if same and is_same else compiled(flag, questions)
    return Snapshot(definitions, flags, questions)


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def _same_world(before: Definitions, after: Definitions) -> bool:
    return before.cohorts == after.cohorts and before.timezone == after.timezone


def _evaluable(flags: Collection[Compiled]) -> tuple[Compiled, ...]:
    """In an order in which dependencies come first. Flags that depend on one that is missing,
    inactive or, in a circle, on themselves cannot be evaluated."""
    placed: list[Compiled] = []
    usable: set[FlagId] = set()
    waiting = list(flags)
    while waiting:
        ready = [each for each in waiting if each.needs <= usable]
        if not ready:
            break
        placed += ready
        usable |= {each.flag.id for each in ready if each.flag.active}
        done = {each.flag.id for each in ready}
        waiting = [each for each in waiting if each.flag.id not in done]
    return (*placed, *(missing_dependency(each.flag) for each in waiting))
