"""Find the persons that match filters, a cohort or a text."""

from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.flags.evaluation.blast_radius import RunInThread, compile_condition
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.store import PersonScanner
from hedgerow.persons.model import Person
from hedgerow.persons.store import PersonQuery, PersonStore
from hedgerow.projects.model import Project


class PersonSearch:
    def __init__(
        self,
        flag_cache: FlagCache,
        persons: PersonStore,
        scanner: PersonScanner,
        run_in_thread: RunInThread,
    ) -> None:
        self._flag_cache = flag_cache
        self._persons = persons
        self._scanner = scanner
        self._run_in_thread = run_in_thread

    async def find_persons(
        self, project: Project, query: PersonQuery, filters: Any, now: datetime
    ) -> tuple[list[Person], int]:
        """Return one page of the persons of a query that match all filters, newest first, and their
        number. Only what no index has is read for all persons."""
        if not filters and not query.needs_scan:
            return await self._persons.persons(query)
        snapshot = await self._flag_cache.refresh(project)
        try:
            condition = await self._run_in_thread(
                lambda: compile_condition(snapshot, {"properties": filters}, None, now)
            )
        except Invalid as error:
            place = (error.attr or "").removeprefix("condition.")
            raise Invalid(error.detail, attr=place, code=error.code) from None
        found = await self._scanner.scan_persons(query, condition)
        return await self._persons.get_newest_first(found.ids), found.matching
