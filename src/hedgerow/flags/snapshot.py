"""All flags of a project, compiled, at one generation. Evaluating does no I/O and never raises."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hedgerow.flags.bucket import VARIANT, identifier_bytes
from hedgerow.flags.compile import Answers, Compiled, Variants, compiled, missing_dependency
from hedgerow.flags.model import Definitions, FlagId, Outcome, Runtime
from hedgerow.flags.questions import Question, Questions, everybody
from hedgerow.flags.subject import NeedsStored, Subject

# A plain flag within its question: its place, the prefix of its hash, its limit if it has one, what
# it gives to those who are in and out, and its variants.
Member = tuple[int, bytes, bytes | None, Outcome, Outcome, Variants]


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
        self._plan = Plan(self.everything)
        self._needed = frozenset(id for each in self.everything for id in each.needs)
        self.has_static_cohorts = any(cohort.is_static for cohort in definitions.cohorts)
        self.asks_place = any("geoip_" in key for key in questions.keys)
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

    def evaluate(
        self, flags: Sequence[Compiled], subject: Subject, *, until_stored: bool = False
    ) -> list[Outcome]:
        """What each of the flags gives; `subject.has_errors` says whether some could not be known.
        One that waits for stored data is told as failed, and `subject.needs_stored` says that there
        are such; `until_stored` stops at the first."""
        plan = self._plan if flags is self.everything else Plan(flags)
        outcomes = plan.answer_plain(subject, until_stored=until_stored)
        if subject.needs_stored and until_stored:
            return outcomes
        if self._needed:
            for place, each in enumerate(flags):
                if each.plain is not None and each.flag.id in self._needed:
                    subject.results[each.flag.id] = outcomes[place]
        if plan.others:
            self._answer_others(plan, subject, outcomes, until_stored=until_stored)
        return outcomes

    def _answer_others(
        self, plan: "Plan", subject: Subject, outcomes: list[Outcome], *, until_stored: bool
    ) -> None:
        answers: Answers = {}
        for place, each in plan.others:
            try:
                outcome = each.run(subject, answers)
            except NeedsStored:
                subject.needs_stored = True
                if until_stored:
                    return
                outcome = each.failed
            except Exception:  # noqa: BLE001 - what breaks one flag must leave the others right
                outcome = each.failed
            outcomes[place] = outcome
            if outcome.error:
                subject.has_errors = True
            if each.flag.id in self._needed:
                subject.results[each.flag.id] = outcome


class Plan:
    """Flags laid out for the shortest way through them: plain ones by the question they ask."""

    def __init__(self, flags: Sequence[Compiled]) -> None:
        self.others = [(place, each) for place, each in enumerate(flags) if each.plain is None]
        self._usual = [each.plain.no_match if each.plain else each.failed for each in flags]
        self._failed = [each.failed for each in flags]
        by_number: dict[int, tuple[Question, list[Member]]] = {}
        for place, each in enumerate(flags):
            plain = each.plain
            if plain is not None:
                _, members = by_number.setdefault(plain.number, (plain.question, []))
                prefix = identifier_bytes(f"{each.flag.key}.")
                members.append((place, prefix, plain.limit, plain.on, plain.out, plain.variants))
        # Those who ask nothing come last: they decide much, and an evaluation that ends because
        # something stored is needed ends the sooner.
        self._asked = sorted(by_number.values(), key=lambda each: each[0] is everybody)

    def answer_plain(self, subject: Subject, *, until_stored: bool) -> list[Outcome]:
        outcomes = self._usual.copy()
        for question, members in self._asked:
            try:
                if question(subject):
                    _roll_out(members, subject, outcomes)
            except NeedsStored:
                subject.needs_stored = True
                if until_stored:
                    break
                self._fail(members, subject, outcomes)
            except Exception:  # noqa: BLE001 - what breaks one flag must leave the others right
                self._fail(members, subject, outcomes)
        return outcomes

    def _fail(self, members: Sequence[Member], subject: Subject, outcomes: list[Outcome]) -> None:
        subject.has_errors = True
        for member in members:
            outcomes[member[0]] = self._failed[member[0]]


def _roll_out(members: Sequence[Member], subject: Subject, outcomes: list[Outcome]) -> None:
    """The question holds: who is in, and with which variant."""
    hash, id = subject.hash, subject.id
    for place, prefix, limit, on, out, variants in members:
        if limit is not None and hash(prefix + id).digest() >= limit:
            outcomes[place] = out
            continue
        outcomes[place] = on
        if variants:
            digest = hash(prefix + id + VARIANT).digest()
            for end, variant in variants:
                if digest < end:
                    outcomes[place] = variant
                    break


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
