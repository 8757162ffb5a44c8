"""A filter as a function of the subject: about a person, a group, a cohort or another flag.

A project's questions are numbered; flags that ask the same one share its number, and a subject
answers each number once.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from typing import Any

from hedgerow.filters.operators import Operator, operator_named, predicate
from hedgerow.flags.model import FlagId
from hedgerow.flags.subject import NeedsStored, Subject
from hedgerow.lib import jsonio
from hedgerow.persons.model import Cohort, CohortId

Question = Callable[[Subject], bool]

FLAG_OPERATOR = "flag_evaluates_to"


class Broken(ValueError):
    """A stored definition that cannot be evaluated; the message says why."""


class Questions:
    """All questions of one project. The numbers hold as long as this object does."""

    def __init__(self, cohorts: Sequence[Cohort], zone: tzinfo) -> None:
        self._zone = zone
        self._cohorts = {cohort.id: cohort for cohort in cohorts if not cohort.deleted}
        self._numbers: dict[bytes, int] = {}
        self._questions: list[Question] = []
        # The properties that are asked for.
        self.keys: set[str] = set()
        self._open_cohorts: list[CohortId] = []
        self._memberships: dict[CohortId, Question] = {}

    def apart(self) -> "Questions":
        """The same project's, for a question that nobody will ask again."""
        return Questions(list(self._cohorts.values()), self._zone)

    def all_of(self, filters: Sequence[Mapping[str, Any]]) -> tuple[int, Question]:
        """One question for several filters; properties first and cohorts last."""
        parts = sorted(map(self.one, filters), key=lambda part: part[2])
        if len(parts) == 1:
            return parts[0][:2]
        if not parts:
            return self._numbered(b"all:[]", lambda: everybody)
        key = b"all:" + jsonio.encode([number for number, _, _ in parts])
        asked = [question for _, question, _ in parts]
        return self._numbered(key, lambda: _all(asked))

    def one(self, filter: Any) -> tuple[int, Question, bool]:
        """The filter's number and question, and whether it is about a cohort."""
        if not isinstance(filter, Mapping):
            raise Broken("a filter is not an object")
        try:
            key = jsonio.encode(filter)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise Broken(f"a filter cannot be read: {error}") from None
        kind = filter.get("type") or "person"
        number, question = self._numbered(key, lambda: self._question(kind, filter))
        return number, question, kind in ("cohort", "static-cohort")

    def _numbered(self, key: bytes, make: Callable[[], Question]) -> tuple[int, Question]:
        number = self._numbers.get(key)
        if number is None:
            question = make()  # may number other questions first
            number = self._numbers[key] = len(self._questions)
            self._questions.append(question)
        return number, self._questions[number]

    def _question(self, kind: str, filter: Mapping[str, Any]) -> Question:
        match kind:
            case "person" | "event":
                return self._about_person(filter)
            case "group":
                return self._about_group(filter)
            case "cohort" | "static-cohort":
                return self._about_cohort(filter)
            case "flag":
                return _about_flag(filter)
        raise Broken(f"there is no filter of type {kind!r}")

    def _asked(self, filter: Mapping[str, Any]) -> tuple[str, Any]:
        key = filter.get("key")
        if not isinstance(key, str):
            raise Broken("a filter has no key")
        self.keys.add(key)
        operator = operator_named(filter.get("operator"))
        if operator is None:
            raise Broken(f"there is no operator {filter.get('operator')!r}")
        return key, predicate(operator, filter.get("value"), self._zone)

    def _about_person(self, filter: Mapping[str, Any]) -> Question:
        key, matches = self._asked(filter)

        def ask(subject: Subject) -> bool:
            return bool(matches(subject.person[key], subject.now))

        return ask

    def _about_group(self, filter: Mapping[str, Any]) -> Question:
        key, matches = self._asked(filter)
        index = filter.get("group_type_index")

        def ask(subject: Subject) -> bool:
            properties = subject.group_properties.get(index)  # type: ignore[arg-type]
            return properties is not None and bool(matches(properties[key], subject.now))

        return ask

    def _about_cohort(self, filter: Mapping[str, Any]) -> Question:
        operator = filter.get("operator")
        if operator not in (None, "in", "not_in", Operator.EXACT):
            return _nobody
        try:
            id = CohortId(int(filter.get("value")))  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            raise Broken("a cohort filter names no cohort") from None
        member = self._membership(id)
        if operator == "not_in":
            return lambda subject: not member(subject)
        return member

    def _membership(self, id: CohortId) -> Question:
        found = self._memberships.get(id)
        if found is None:
            found = self._memberships[id] = self._new_membership(id)
        return found

    def _new_membership(self, id: CohortId) -> Question:
        cohort = self._cohorts.get(id)
        if cohort is None:
            raise Broken(f"there is no cohort {id}")
        if cohort.is_static:
            return lambda subject: id in _static_cohorts(subject)
        if id in self._open_cohorts:
            raise Broken(f"cohort {id} contains itself")
        self._open_cohorts.append(id)
        try:
            question = self._definition(cohort.definition)
        finally:
            self._open_cohorts.pop()

        def member(subject: Subject) -> bool:
            known = subject.in_cohorts.get(id)
            if known is None:
                known = subject.in_cohorts[id] = question(subject)
            return known

        return member

    def _definition(self, node: Any) -> Question:
        """A group of filters and groups; an empty group is true for everybody."""
        if not isinstance(node, Mapping):
            raise Broken("a cohort's definition is not an object")
        if not isinstance(node.get("values"), list):
            return self._leaf(node)
        parts = [self._definition(value) for value in node["values"]]
        if not parts:
            return everybody
        return _any(parts) if str(node.get("type", "AND")).upper() == "OR" else _all(parts)

    def _leaf(self, filter: Mapping[str, Any]) -> Question:
        if not filter:
            return _nobody
        if filter.get("type") in ("behavioral", "behavioural"):
            raise Broken("a cohort asks what people did, which flags cannot know")
        if filter.get("type") == "flag":
            raise Broken("a cohort cannot ask about flags")
        plain = {key: value for key, value in filter.items() if key != "negation"}
        _, question, _ = self.one(plain)
        if filter.get("negation"):
            return lambda subject: not question(subject)
        return question


def _all(questions: Sequence[Question]) -> Question:
    """One that does not hold decides, whatever is still unknown of the others."""

    def ask(subject: Subject) -> bool:
        waits = False
        for question in questions:
            try:
                if not question(subject):
                    return False
            except NeedsStored:
                waits = True
        if waits:
            raise NeedsStored
        return True

    return ask


def _any(questions: Sequence[Question]) -> Question:
    """One that holds decides, whatever is still unknown of the others."""

    def ask(subject: Subject) -> bool:
        waits = False
        for question in questions:
            try:
                if question(subject):
                    return True
            except NeedsStored:
                waits = True
        if waits:
            raise NeedsStored
        return False

    return ask


def everybody(subject: Subject) -> bool:
    return True


def _nobody(subject: Subject) -> bool:
    return False


def _static_cohorts(subject: Subject) -> frozenset[int]:
    if subject.cohorts is None:
        raise NeedsStored
    return subject.cohorts


def dependency_of(filter: Any) -> FlagId | None:
    """The flag that a filter asks about, None for any other filter."""
    if not isinstance(filter, Mapping) or filter.get("type") != "flag":
        return None
    try:
        return FlagId(int(filter.get("key")))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise Broken("a flag filter names no flag") from None


def _about_flag(filter: Mapping[str, Any]) -> Question:
    id, wanted = dependency_of(filter), filter.get("value")
    if id is None or filter.get("operator") != FLAG_OPERATOR:
        return _nobody

    def ask(subject: Subject) -> bool:
        outcome = subject.results.get(id)
        if outcome is not None and outcome.failed:
            if subject.needs_stored:
                raise NeedsStored
            return False
        value = False if outcome is None else outcome.value  # who was not asked for is off
        if isinstance(wanted, bool):
            return (value is not False) is wanted
        return isinstance(wanted, str) and value == wanted

    return ask
