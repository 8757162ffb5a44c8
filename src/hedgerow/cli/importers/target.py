"""The project that an import writes to."""

import csv
import io
import time
from collections.abc import Mapping, Sequence
from functools import partial
from secrets import token_bytes
from typing import Any

from hedgerow.cli.service_client import (
    RETRY_PAUSES_S,
    ServiceClient,
    ServiceUnavailable,
    with_retries,
)
from hedgerow.importers.matching import (
    IdMap,
    ImportAction,
    ImportDecision,
    TargetState,
    decide_import,
)
from hedgerow.importers.model import ImportItem, ResourceKind, SourceId
from hedgerow.importers.person_events import GROUP_SENDER_ID, split_batches
from hedgerow.ingestion.import_events import parse_import
from hedgerow.lib.clock import utc_now
from hedgerow.lib.ids import UUID7_RANDOM_BYTES
from hedgerow.projects.model import Project, ProjectId

PATHS = {
    ResourceKind.COHORT: "cohorts/",
    ResourceKind.FLAG: "feature_flags/",
    ResourceKind.FEATURE: "early_access_feature/",
    ResourceKind.SURVEY: "surveys/",
    ResourceKind.EXPERIMENT: "experiments/",
}
BATCH_SIZE = 500
TARGETING_FIELD = "targeting_flag_filters"
BATCH_BYTES = 4 * 1024 * 1024
KNOWN_IDS_QUERY = (
    "SELECT DISTINCT distinct_id FROM events "
    "WHERE distinct_id IN {ids} AND historical_migration = false LIMIT 50000"
)
EXISTING_IDS_QUERY = (
    "SELECT DISTINCT distinct_id FROM person_distinct_ids WHERE distinct_id IN {ids} LIMIT 50000"
)
KNOWN_GROUPS_QUERY = (
    "SELECT DISTINCT properties.$group_key FROM events WHERE event = '$groupidentify' "
    "AND properties.$group_type = {type} AND historical_migration = false LIMIT 50000"
)


class ImportTarget:
    """One project of a running service. Call `load` first."""

    def __init__(
        self, url: str, key: str, project: int | None, kinds: Sequence[ResourceKind]
    ) -> None:
        self._url = url
        self._service = ServiceClient(url, key, project)
        self._kinds = [kind for kind in PATHS if kind in kinds]
        self._project_key = ""
        self.project: Project | None = None
        self.name = ""
        self.state = TargetState()

    def load(self) -> None:
        """Load the project and its items."""
        project = with_retries(lambda: self._service.request("GET", ""))
        self._project_key = project["api_token"]
        self.project = Project(
            id=ProjectId(project["id"]),
            uuid=project["uuid"],
            organization_id=project["organization"],
            name=project["name"],
            timezone=project["timezone"],
            api_token=project["api_token"],
            created_at=utc_now(),
            updated_at=utc_now(),
        )
        self.name = f"{self._url} project {project['id']}"
        types = with_retries(lambda: self._service.request("GET", "groups_types/"))
        self.state.group_types = {each["group_type"]: each["group_type_index"] for each in types}
        for kind in self._kinds:
            self._load_items(kind)

    def create_group_type(self, name: str) -> int:
        """Return the index of a group type, which is created if it is new."""
        created = with_retries(
            lambda: self._service.request("POST", "groups_types/", {"group_type": name})
        )
        index: int = created["group_type_index"]
        self.state.group_types[name] = index
        return index

    def apply(
        self,
        item: ImportItem,
        id_map: IdMap,
        known: Mapping[SourceId, Any],
        *,
        overwrite: bool,
    ) -> ImportDecision:
        """Create an item, or change it with `overwrite`, and record its id. Returns the first
        decision.

        If the response gets lost, it looks for the item before it creates it again.
        """
        first = None
        for pause_s in (*RETRY_PAUSES_S, None):
            decision = decide_import(item, self.state, id_map, known)
            first = first or decision
            try:
                id_map.add(item, self._execute(decision, overwrite=overwrite))
                return first
            except ServiceUnavailable as error:
                if pause_s is None:
                    raise
                time.sleep(max(pause_s, error.retry_after_s))
            self._load_items(item.kind)
        raise AssertionError("the last pause is None")

    def _execute(self, decision: ImportDecision, *, overwrite: bool) -> Any:
        path = PATHS[decision.item.kind]
        if decision.action is ImportAction.CREATE:
            return self._service.request("POST", path, decision.body)["id"]
        if decision.action is ImportAction.DIFFERS and overwrite:
            differing = [name for name in decision.differences if name in decision.body]
            changes = {name: decision.body[name] for name in differing}
            if changes.get(TARGETING_FIELD, ()) is None:  # null would change nothing
                changes["remove_targeting_flag"] = True
            if changes:
                self._service.request("PATCH", f"{path}{decision.id}/", changes)
        return decision.id

    def find_known_ids(self, ids: Sequence[str]) -> frozenset[str]:
        """Return the distinct ids that have events which were not imported."""
        return self._query_ids(KNOWN_IDS_QUERY, ids)

    def find_existing_ids(self, ids: Sequence[str]) -> frozenset[str]:
        """Return the distinct ids that belong to a person, after the events sent before."""
        return self._query_ids(EXISTING_IDS_QUERY, ids)

    def find_known_groups(self, type_name: str) -> frozenset[str]:
        return self._query_column(KNOWN_GROUPS_QUERY, {"type": type_name})

    def send(self, events: Sequence[dict[str, Any]]) -> list[str]:
        """Send events, and return why any were rejected."""
        errors = []
        for batch in split_batches(events, BATCH_SIZE, BATCH_BYTES):
            _, invalid = parse_import(batch, utc_now(), token_bytes(UUID7_RANDOM_BYTES))
            good = [event for index, event in enumerate(batch) if index not in invalid]
            errors += [
                f"event {batch[index].get('uuid')}: {reason}" for index, reason in invalid.items()
            ]
            if good:
                errors += with_retries(partial(self._service.capture, self._project_key, good))
        return errors

    def add_members(self, cohort_id: int, ids: Sequence[str]) -> None:
        """Add the persons with these distinct ids to a static cohort."""
        lines = io.StringIO()
        csv.writer(lines).writerows([id] for id in ids)
        body = {"csv": lines.getvalue()}
        path = f"cohorts/{cohort_id}/"
        with_retries(lambda: self._service.request("PATCH", path, body))

    def delete_group_sender(self) -> None:
        """Delete the person that group events created, who does not exist in the source."""
        path = f"persons/?distinct_id={GROUP_SENDER_ID}"
        for person in with_retries(lambda: self._service.request("GET", path))["results"]:
            with_retries(partial(self._service.request, "DELETE", f"persons/{person['id']}/"))

    def _query_ids(self, query: str, ids: Sequence[str]) -> frozenset[str]:
        batches = [ids[at : at + BATCH_SIZE] for at in range(0, len(ids), BATCH_SIZE)]
        return frozenset().union(*(self._query_column(query, {"ids": each}) for each in batches))

    def _query_column(self, query: str, values: Mapping[str, Any]) -> frozenset[str]:
        result = with_retries(lambda: self._service.query(query, values, fresh=True))
        return frozenset(row[0] for row in result["results"] if isinstance(row[0], str))

    def _load_items(self, kind: ResourceKind) -> None:
        items = self._fetch_all(f"{PATHS[kind]}?")
        if kind is ResourceKind.EXPERIMENT:  # the list leaves archived ones out
            items += self._fetch_all(f"{PATHS[kind]}?archived=true&")
        self.state.items[kind] = sorted(items, key=lambda item: str(item["created_at"]))

    def _fetch_all(self, path: str) -> list[Any]:
        items: list[Any] = []
        while True:
            page_path = f"{path}limit=1000&offset={len(items)}"
            page = with_retries(partial(self._service.request, "GET", page_path))
            items += page["results"]
            if not page["next"] or not page["results"]:
                return items
