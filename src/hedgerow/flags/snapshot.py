"""All flags of a project, compiled, at one generation. Evaluating does no I/O and never raises."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hedgerow.flags.bucket import VARIANT, identifier_bytes
from hedgerow.flags.compile import Answers, Compiled, Variants, compiled, missing_dependency
from hedgerow.flags.model import Definitions, FlagId, Outcome, Runtime
from hedgerow.flags.questions import Question, Questions, everybody
from hedgerow.flags.subject import NeedsStored, Subject
from hedgerow.lib import jsonio
from hedgerow.persons.model import Cohort

# A plain flag within its question: its place, the prefix of its hash, its limit if it has one, what
# it gives to those who are in and out, and its variants.
Member = tuple[int, bytes, bytes | None, Outcome, Outcome, Variants]


class Snapshot:
    """`everything` is every flag that is not deleted, after all that it depends on. `carried` is
    the weight of all that its questions were ever made for."""

    def __init__(
        self,
        definitions: Definitions,
        flags: Mapping[FlagId, Compiled],
        questions: Questions,
        carried: int,
    ) -> None:
        self.definitions = definitions
        self.questions = questions
        self.carried = carried
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
    carried = 0
    if before is not None and _can_be_carried_on(before, definitions):
        known, questions, carried = before.compiled, before.questions, before.carried
    else:
        questions = Questions(definitions.cohorts, _zone(definitions.timezone))
    flags = {}
    for flag in definitions.flags:
        if flag.deleted:
            continue
        each = known.get(flag.id)
        if each is None or not (each.flag is flag or each.flag == flag):
            each = compiled(flag, questions)
            carried += each.weight
        flags[flag.id] = each
    return Snapshot(definitions, flags, questions, carried)


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def _can_be_carried_on(before: Snapshot, definitions: Definitions) -> bool:
    """Questions keep what nobody asks any more, so they are begun anew when that is half of
    them."""
    in_use = sum(each.weight for each in before.compiled.values())
    return before.carried <= 2 * in_use and _same_world(before.definitions, definitions)


def _same_world(before: Definitions, after: Definitions) -> bool:
    return (
        before.timezone == after.timezone
        and len(before.cohorts) == len(after.cohorts)
        and all(map(_asks_the_same, before.cohorts, after.cohorts))
    )


def _asks_the_same(one: Cohort, other: Cohort) -> bool:
    """Whatever it is called, and whoever changed it."""
    return one == other or (
        (one.id, one.is_static, one.deleted) == (other.id, other.is_static, other.deleted)
        and jsonio.same(one.definition, other.definition)
    )


def _evaluable(flags: Collection[Compiled]) -> tuple[Compiled, ...]:
    """In an order in which dependencies come first. Flags that depend on one that is missing,
    inactive or, in a circle, on themselves cannot be evaluated."""
    dependants: defaultdict[FlagId, list[Compiled]] = defaultdict(list)
    for each in flags:
        for id in each.needs:
            dependants[id].append(each)
    unmet = {each.flag.id: len(each.needs) for each in flags}
    placed = [each for each in flags if not each.needs]
    for each in placed:  # which grows meanwhile
        for dependant in dependants[each.flag.id] if each.flag.active else ():
            unmet[dependant.flag.id] -= 1
            if not unmet[dependant.flag.id]:
                placed.append(dependant)
    left = (each for each in flags if unmet[each.flag.id])
    return (*placed, *(missing_dependency(each.flag) for each in left))
