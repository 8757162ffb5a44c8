"""What a project has of people, moved page by page: groups, events, persons, members of cohorts.

After each page the file of the move says where to go on. A page that was sent and not yet written
down is sent again, and stored once.
"""

from collections.abc import Iterator, Mapping, Sequence
from secrets import token_hex
from typing import Any

from rich.progress import Progress

from hedgerow.cli.moving_source import Source
from hedgerow.cli.moving_target import Target
from hedgerow.importers.matching import Numbers
from hedgerow.importers.model import Kind
from hedgerow.importers.people import (
    CARRIER,
    group_event,
    ids_of,
    person_events,
    with_group_numbers,
)
from hedgerow.importers.posthog_surveys import with_survey_ids
from hedgerow.lib.text import on_one_line
from hedgerow.pipelines.imports.mapping import mapped_by
from hedgerow.storage.moving_ledger import LedgerFile, Walk

TOLD = 20
# So often it is looked whether those who were sent have come, who are to be in a static cohort.
LOOKS = 10
SEED_BYTES = 8

_to_event = mapped_by({})


class History:
    def __init__(
        self, source: Source, target: Target, file: LedgerFile, bar: Progress, numbers: Numbers
    ) -> None:
        self._source = source
        self._target = target
        self._file = file
        self._bar = bar
        self._numbers = numbers
        self.bad = 0
        self.told: list[str] = []
        self.kept_groups = 0
        self.lacking: list[str] = []

    @property
    def is_whole(self) -> bool:
        return not self.bad and not self.lacking

    def groups(self, index: int, type_name: str, total: int | None) -> None:
        name = f"groups of type {type_name}"
        walk, task = self._begun(name, total)
        met = self._target.met_groups(type_name)
        pages = self._source.pages("groups/", walk.cursor, group_type_index=index)
        for groups, following in pages:
            kept = [each for each in groups if each.get("group_key") in met]
            self.kept_groups += len(kept)
            events = [
                event
                for each in groups
                if each.get("group_key") not in met
                and (event := group_event(each, type_name, walk.seed))
            ]
            self._sent(walk, task, events, len(groups), following)
        if walk.done:
            self._target.forget_carrier()

    def events(self, since: str, total: int | None) -> None:
        name = f"events since {since}" if since else "events"
        walk = self._file.walk(name)
        task = self._bar.add_task("events", total=total, completed=walk.done)
        for portion in self._source.events(since, walk.cursor):
            self._refuse([f"{row.place}: {row.reason}" for row in portion.bad])
            events = [self._translated(_to_event(row)) for row in portion.rows]
            self._sent(walk, task, events, len(portion.rows), portion.cursor)

    def persons(self, total: int | None) -> None:
        walk, task = self._begun("persons", total)
        for persons, following in self._source.pages("persons/", walk.cursor):
            self._sent(walk, task, self._made(persons, walk), len(persons), following)

    def members(self, cohort: int, own_id: int, name: str, *, send: bool) -> None:
        """`send`: the members are not among persons who were copied before."""
        walk, task = self._begun(f"members of cohort {cohort}", None, f"members of {name}")
        for persons, following in self._source.members(cohort, walk.cursor):
            events = self._made(persons, walk) if send else []
            self._refuse(self._target.send(events))
            ids = [ids[0] for each in persons if (ids := ids_of(each))]
            if missing := self._missing(ids):
                self.lacking.append(
                    f"cohort {name}: {len(missing)} member(s) are not here yet, such as "
                    f"{missing[0]}. Run the same command again."
                )
            if ids:
                self._target.fill(own_id, ids)
            self._sent(walk, task, [], len(persons), following)

    def _missing(self, ids: Sequence[str]) -> Sequence[str]:
        """Those who are nobody's even after the service has waited for them several times."""
        missing = ids
        for _ in range(LOOKS):
            here = self._target.here(missing)
            missing = [id for id in missing if id not in here]
            if not missing:
                break
        return missing

    def _made(self, persons: Sequence[Mapping[str, Any]], walk: Walk) -> list[dict[str, Any]]:
        persons = [self._translated(each) for each in persons if ids_of(each) != [CARRIER]]
        met = self._target.met([id for each in persons for id in ids_of(each)])
        return [event for each in persons for event in person_events(each, met, walk.seed)]

    def _translated(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """An event or a person in the numbers of here."""
        properties = item.get("properties")
        if not isinstance(properties, Mapping):
            return dict(item)
        numbered = with_group_numbers(properties, self._numbers.group_types)
        named = with_survey_ids(numbered, self._numbers.of[Kind.SURVEY])
        return {**item, "properties": named}

    def _begun(self, name: str, total: int | None, shown: str = "") -> tuple[Walk, Any]:
        """A walk where it was left; one that was over begins anew. What tells it from others must
        be written down before anything is sent."""
        walk = self._file.walk(name)
        if walk.is_complete:
            walk.cursor, walk.done, walk.is_complete, walk.seed = None, 0, False, ""
        if not walk.seed:
            walk.seed = token_hex(SEED_BYTES)
            self._file.keep()
        text = on_one_line(shown or name)
        return walk, self._bar.add_task(text, total=total, completed=walk.done)

    def _sent(
        self, walk: Walk, task: Any, events: Sequence[dict[str, Any]], number: int, cursor: Any
    ) -> None:
        self._refuse(self._target.send(events))
        walk.cursor = cursor
        walk.done += number
        walk.is_complete = not (cursor["next"] if isinstance(cursor, dict) else cursor)
        self._file.keep()
        self._bar.advance(task, number)

    def _refuse(self, told: Sequence[str]) -> None:
        self.bad += len(told)
        self.told += told[: TOLD - len(self.told)]


def told_lines(history: History) -> Iterator[str]:
    if history.kept_groups:
        yield f"{history.kept_groups} group(s) were told of here since, and left as they are."
    if history.bad:
        yield f"{history.bad} event(s) were refused:"
    yield from (f"  {line}" for line in history.told)
    if history.bad > len(history.told):
        yield f"  … and {history.bad - len(history.told)} more."
    yield from history.lacking
