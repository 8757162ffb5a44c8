"""The project that somebody moves into: what it has, and what is made in it."""

import csv
import io
import time
from collections.abc import Mapping, Sequence
from functools import partial
from secrets import token_bytes
from typing import Any

from hedgerow.cli.running import PAUSES_S, Away, Service, insisted
from hedgerow.importers.matching import Action, Decision, Numbers, There, decided
from hedgerow.importers.model import Kind, SourceId, Wanted
from hedgerow.importers.people import CARRIER, batches
from hedgerow.ingestion.imported import checked
from hedgerow.lib.clock import utc_now
from hedgerow.lib.ids import UUID7_RANDOM_BYTES

PATHS = {
    Kind.COHORT: "cohorts/",
    Kind.FLAG: "feature_flags/",
    Kind.FEATURE: "early_access_feature/",
    Kind.SURVEY: "surveys/",
    Kind.EXPERIMENT: "experiments/",
}
AT_ONCE = 500
CHOSEN = "targeting_flag_filters"
BATCH_BYTES = 4 * 1024 * 1024
MET = (
    "SELECT DISTINCT distinct_id FROM events "
    "WHERE distinct_id IN {ids} AND historical_migration = false LIMIT 50000"
)
HERE = "SELECT DISTINCT distinct_id FROM person_distinct_ids WHERE distinct_id IN {ids} LIMIT 50000"
MET_GROUPS = (
    "SELECT DISTINCT properties.$group_key FROM events WHERE event = '$groupidentify' "
    "AND properties.$group_type = {type} AND historical_migration = false LIMIT 50000"
)


class Target:
    def __init__(self, url: str, key: str, project: int | None, kinds: Sequence[Kind]) -> None:
        self._url = url
        self._service = Service(url, key, project)
        self._kinds = [kind for kind in PATHS if kind in kinds]
        self._project_key = ""
        self.name = ""
        self.there = There()

    def look(self) -> None:
        """See which project it is and what it has."""
        project = insisted(lambda: self._service.ask("GET", ""))
        self._project_key = project["api_token"]
        self.name = f"{self._url} project {project['id']}"
        types = insisted(lambda: self._service.ask("GET", "groups_types/"))
        self.there.group_types = {each["group_type"]: each["group_type_index"] for each in types}
        for kind in self._kinds:
            self._look_at(kind)

    def group_type(self, name: str) -> int:
        """The index of a type, which is made if it is new."""
        made = insisted(lambda: self._service.ask("POST", "groups_types/", {"group_type": name}))
        index: int = made["group_type_index"]
        self.there.group_types[name] = index
        return index

    def have(
        self,
        wanted: Wanted,
        numbers: Numbers,
        known: Mapping[SourceId, Any],
        *,
        overwrite: bool,
    ) -> Decision:
        """Make one thing, or change it if that is wished, and learn its number. Where the answer
        to that is lost, it is looked for before it is made once more; what was decided at first is
        what is told."""
        first = None
        for pause_s in (*PAUSES_S, None):
            decision = decided(wanted, self.there, numbers, known)
            first = first or decision
            try:
                numbers.learn(wanted, self._carried_out(decision, overwrite=overwrite))
                return first
            except Away as away:
                if pause_s is None:
                    raise
                time.sleep(max(pause_s, away.after_s))
            self._look_at(wanted.kind)
        raise AssertionError("the last pause is none")

    def _carried_out(self, decision: Decision, *, overwrite: bool) -> Any:
        path = PATHS[decision.wanted.kind]
        if decision.action is Action.CREATE:
            return self._service.ask("POST", path, decision.body)["id"]
        if decision.action is Action.DIFFERS and overwrite:
            differing = [name for name in decision.differences if name in decision.body]
            changes = {name: decision.body[name] for name in differing}
            if changes.get(CHOSEN, ()) is None:  # null leaves things as they are
                changes["remove_targeting_flag"] = True
            if changes:
                self._service.ask("PATCH", f"{path}{decision.id}/", changes)
        return decision.id

    def met(self, ids: Sequence[str]) -> frozenset[str]:
        """Those of the ids of which there are events that were not imported."""
        return self._of_ids(MET, ids)

    def here(self, ids: Sequence[str]) -> frozenset[str]:
        """Those of the ids that are somebody's, once what was sent before is worked in."""
        return self._of_ids(HERE, ids)

    def met_groups(self, type_name: str) -> frozenset[str]:
        return self._column(MET_GROUPS, {"type": type_name})

    def send(self, events: Sequence[dict[str, Any]]) -> list[str]:
        """Why those were refused that were."""
        told = []
        for batch in batches(events, AT_ONCE, BATCH_BYTES):
            _, refused = checked(batch, utc_now(), token_bytes(UUID7_RANDOM_BYTES))
            good = [event for at, event in enumerate(batch) if at not in refused]
            told += [f"event {batch[at].get('uuid')}: {why}" for at, why in refused.items()]
            if good:
                told += insisted(partial(self._service.capture, self._project_key, good))
        return told

    def fill(self, cohort_id: int, ids: Sequence[str]) -> None:
        """Put the persons of these ids into a static cohort."""
        lines = io.StringIO()
        csv.writer(lines).writerows([id] for id in ids)
        body = {"csv": lines.getvalue()}
        path = f"cohorts/{cohort_id}/"
        insisted(lambda: self._service.ask("PATCH", path, body))

    def forget_carrier(self) -> None:
        """Nobody is behind the events that told of groups."""
        path = f"persons/?distinct_id={CARRIER}"
        for person in insisted(lambda: self._service.ask("GET", path))["results"]:
            insisted(partial(self._service.ask, "DELETE", f"persons/{person['id']}/"))

    def _of_ids(self, query: str, ids: Sequence[str]) -> frozenset[str]:
        some = [ids[at : at + AT_ONCE] for at in range(0, len(ids), AT_ONCE)]
        return frozenset().union(*(self._column(query, {"ids": each}) for each in some))

    def _column(self, query: str, values: Mapping[str, Any]) -> frozenset[str]:
        answer = insisted(lambda: self._service.query(query, values, fresh=True))
        return frozenset(row[0] for row in answer["results"] if isinstance(row[0], str))

    def _look_at(self, kind: Kind) -> None:
        items = self._listed(f"{PATHS[kind]}?")
        if kind is Kind.EXPERIMENT:  # which are listed apart once they are archived
            items += self._listed(f"{PATHS[kind]}?archived=true&")
        self.there.items[kind] = sorted(items, key=lambda item: str(item["created_at"]))

    def _listed(self, path: str) -> list[Any]:
        items: list[Any] = []
        while True:
            asked = f"{path}limit=1000&offset={len(items)}"
            page = insisted(partial(self._service.ask, "GET", asked))
            items += page["results"]
            if not page["next"] or not page["results"]:
                return items
