"""Copy groups, events, persons and cohort members of a source, page by page.

After each page the ledger file records where to continue. A page that was sent but not recorded is
sent again, and stored once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from hedgerow.cli.importers.source import ImportSource
from hedgerow.cli.importers.target import ImportTarget
from hedgerow.cli.output import ProgressBar, ProgressDisplay
from hedgerow.importers.matching import IdMap
from hedgerow.importers.model import ResourceKind
from hedgerow.importers.person_events import (
    GROUP_SENDER_ID,
    build_group_event,
    build_person_events,
    list_distinct_ids,
    translate_group_properties,
)
from hedgerow.importers.posthog_surveys import translate_survey_properties
from hedgerow.lib.text import escape_control_characters
from hedgerow.pipelines.imports.mapping import compile_mapping

if TYPE_CHECKING:
    from hedgerow.app.commands.imports import ImportLedgerFile, ImportProgress

MAX_ERRORS_SHOWN = 20
# Attempts to find the members of a static cohort that were just sent.
MEMBER_ATTEMPTS = 10
SEED_BYTES = 8

_to_event = compile_mapping({})


class HistoryImport:
    """Copies everything that is not a definition. Counts what it copied and what failed."""

    def __init__(
        self,
        source: ImportSource,
        target: ImportTarget,
        ledger: ImportLedgerFile,
        progress: ProgressDisplay,
        id_map: IdMap,
    ) -> None:
        self._source = source
        self._target = target
        self._ledger = ledger
        self._progress = progress
        self._id_map = id_map
        self.copied: dict[str, int] = {}
        self.rejected = 0
        self.errors: list[str] = []
        self.unchanged_groups = 0
        self.missing_members: list[str] = []

    @property
    def is_complete(self) -> bool:
        return not self.rejected and not self.missing_members

    def copy_groups(self, index: int, type_name: str, total: int | None) -> None:
        """Copy the groups of a type, except those that were identified here already."""
        walk, bar = self._start_walk(f"groups of type {type_name}", total)
        known = self._target.find_known_groups(type_name)
        pages = self._source.pages("groups/", walk.cursor, group_type_index=index)
        for groups, next_page in pages:
            self.unchanged_groups += sum(each.get("group_key") in known for each in groups)
            events = [
                event
                for each in groups
                if each.get("group_key") not in known
                and (event := build_group_event(each, type_name, walk.seed))
            ]
            self._send_page(walk, bar, events, len(groups), next_page)
        if walk.done:
            self._target.delete_group_sender()
        self.copied[f"groups of type {type_name}"] = walk.done

    def copy_events(self, since: str, total: int | None) -> None:
        walk = self._ledger.get_progress(f"events since {since}" if since else "events")
        bar = self._progress.add_bar("events", total, walk.done)
        for batch in self._source.events(since, walk.cursor):
            self._reject([f"{row.location}: {row.reason}" for row in batch.bad])
            events = [self._translate(_to_event(row)) for row in batch.rows]
            self._send_page(walk, bar, events, len(batch.rows), batch.cursor)
        self.copied["events"] = walk.done

    def copy_persons(self, total: int | None) -> None:
        walk, bar = self._start_walk("persons", total)
        for persons, next_page in self._source.pages("persons/", walk.cursor):
            events = self._build_person_events(persons, walk)
            self._send_page(walk, bar, events, len(persons), next_page)
        self.copied["persons"] = walk.done

    def copy_members(self, cohort: int, own_id: int, name: str, *, sends_persons: bool) -> None:
        """Copy the members of a static cohort. `sends_persons` also sends the persons, who were
        not copied before."""
        walk, bar = self._start_walk(f"members of cohort {cohort}", None, f"members of {name}")
        for persons, next_page in self._source.members(cohort, walk.cursor):
            events = self._build_person_events(persons, walk) if sends_persons else []
            self._reject(self._target.send(events))
            ids = [ids[0] for each in persons if (ids := list_distinct_ids(each))]
            if missing := self._find_missing(ids):
                self.missing_members.append(
                    f"cohort {name}: {len(missing)} member(s) are not processed yet, such as "
                    f"{missing[0]}. Run the same command again."
                )
            if ids:
                self._target.add_members(own_id, ids)
            self._send_page(walk, bar, [], len(persons), next_page)
        self.copied[f"members of {name}"] = walk.done

    def _find_missing(self, ids: Sequence[str]) -> Sequence[str]:
        """Return the ids that belong to no person even after several waits of the service."""
        missing = ids
        for _ in range(MEMBER_ATTEMPTS):
            existing = self._target.find_existing_ids(missing)
            missing = [id for id in missing if id not in existing]
            if not missing:
                break
        return missing

    def _build_person_events(
        self, persons: Sequence[Mapping[str, Any]], walk: ImportProgress
    ) -> list[dict[str, Any]]:
        persons = [
            self._translate(each)
            for each in persons
            if list_distinct_ids(each) != [GROUP_SENDER_ID]
        ]
        ids = [id for each in persons for id in list_distinct_ids(each)]
        known = self._target.find_known_ids(ids)
        return [event for each in persons for event in build_person_events(each, known, walk.seed)]

    def _translate(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Return an event or a person with the ids of the target project."""
        properties = item.get("properties")
        if not isinstance(properties, Mapping):
            return dict(item)
        with_groups = translate_group_properties(properties, self._id_map.group_types)
        surveys = self._id_map.ids[ResourceKind.SURVEY]
        return {**item, "properties": translate_survey_properties(with_groups, surveys)}

    def _start_walk(
        self, name: str, total: int | None, unit: str = ""
    ) -> tuple[ImportProgress, ProgressBar]:
        """Continue a walk, or start it again if it was complete.

        The seed that makes its events unique is recorded before anything is sent.
        """
        walk = self._ledger.get_progress(name)
        if walk.is_complete:
            walk.cursor, walk.done, walk.is_complete, walk.seed = None, 0, False, ""
        if not walk.seed:
            walk.seed = token_hex(SEED_BYTES)
            self._ledger.save()
        text = escape_control_characters(unit or name)
        return walk, self._progress.add_bar(text, total, walk.done)

    def _send_page(
        self,
        walk: ImportProgress,
        bar: ProgressBar,
        events: Sequence[dict[str, Any]],
        count: int,
        cursor: Any,
    ) -> None:
        self._reject(self._target.send(events))
        walk.cursor = cursor
        walk.done += count
        walk.is_complete = not (cursor["next"] if isinstance(cursor, dict) else cursor)
        self._ledger.save()
        bar.advance(count)

    def _reject(self, errors: Sequence[str]) -> None:
        self.rejected += len(errors)
        self.errors += errors[: MAX_ERRORS_SHOWN - len(self.errors)]


def describe_history(history: HistoryImport) -> Iterator[str]:
    """Yield the lines that report what was not copied."""
    if history.unchanged_groups:
        yield f"{history.unchanged_groups} group(s) were identified here already and stay."
    if history.rejected:
        yield f"{history.rejected} event(s) were rejected:"
    yield from (f"  {line}" for line in history.errors)
    if history.rejected > len(history.errors):
        yield f"  … and {history.rejected - len(history.errors)} more."
    yield from history.missing_members
