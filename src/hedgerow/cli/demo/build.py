"""Builds the demo project over the API of a service, as a person would with curl."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from random import Random
from typing import Any, TypeVar
from urllib.parse import quote_plus

from hedgerow.cli.demo.insights import (
    DASHBOARDS,
    build_alerts,
    build_dashboard,
    build_insights,
)
from hedgerow.cli.demo.objects import (
    ACTIONS,
    DEFINITIONS,
    FAILING_DESTINATION,
    FEATURES,
    PROPERTIES,
    build_annotations,
    build_cohorts,
    build_dependent_flag,
    build_experiments,
    build_flags,
    build_surveys,
)
from hedgerow.cli.demo.visits import RECENT_EVENTS, SurveyIds, tell_stories
from hedgerow.cli.demo.world import Company, DemoPerson, make_companies, make_persons, make_uuid
from hedgerow.cli.output import ProgressDisplay
from hedgerow.cli.service_client import ServiceClient, with_retries
from hedgerow.errors import AppError, OperatorError

T = TypeVar("T")

PROJECT_NAME = "Fernleaf (demo)"
DAYS = 45
BATCH_SIZE = 500
TESTERS = 25
WAIT_S = 120.0
COUNT_QUERY = "select count() from events"
POLL_INTERVAL_S = 0.5
# Permanent numbers of components.
WEBHOOK, LOCAL_FILES, REMOVE_PROPERTIES = 1, 3, 63


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltDemo:
    """`counts` are the numbers of things that were made, by their names."""

    project_id: int
    project_key: str
    counts: Mapping[str, int]


@dataclass(slots=True, kw_only=True)
class DemoBuilder:
    """Builds one project. Call `build` once."""

    client: ServiceClient
    progress: ProgressDisplay
    seed: int
    persons: int
    now: datetime
    counts: dict[str, int] = field(default_factory=dict)
    project_id: int = 0
    project_key: str = ""
    sent: int = 0
    is_incomplete: bool = False

    def build(self) -> BuiltDemo:
        project = self.client.request_root("POST", "/api/projects/", {"name": PROJECT_NAME})
        self.project_id, self.project_key = project["id"], project["api_token"]
        self.client.choose_project(self.project_id)
        self.is_incomplete = True
        random = Random(self.seed)  # noqa: S311 - not for secrets
        companies = make_companies(random, self.persons)
        persons = make_persons(random, companies, self.persons, DAYS)
        survey, cohorts = self._make_objects(companies)
        self._make_transformation()
        events = self._tell(persons, survey)
        past, recent = events[:-RECENT_EVENTS], events[-RECENT_EVENTS:]
        self._send(past, is_historical=True)
        self._add_testers(persons, cohorts["testers"])
        failing = self._make_destinations()
        self._send(recent, is_historical=False)
        self._end_deliveries(failing, recent)
        self._describe_properties()
        self._make_insights(failing)
        self.is_incomplete = False
        return BuiltDemo(
            project_id=self.project_id,
            project_key=self.project_key,
            counts={"persons": self.persons, "events": len(events), **self.counts},
        )

    def _tell(self, persons: Sequence[DemoPerson], survey: SurveyIds) -> list[dict[str, Any]]:
        """Return what everyone did. Events have ids, so that a repeated batch is stored once."""
        events = tell_stories(self.seed, persons, survey, self.now, DAYS)
        random = Random(self.project_key)  # noqa: S311 - not for secrets
        for event in events:
            event["uuid"] = make_uuid(random)
        return events

    def _send(self, events: Sequence[dict[str, Any]], *, is_historical: bool) -> None:
        """Send events, and wait until they can be queried."""
        bar = self.progress.add_bar("events", len(events))
        for at in range(0, len(events), BATCH_SIZE):
            batch = events[at : at + BATCH_SIZE]
            with_retries(
                partial(self.client.capture, self.project_key, batch, is_historical=is_historical)
            )
            bar.advance(len(batch))
        self.sent += len(events)
        stored = self.progress.add_bar("events stored", self.sent)

        def is_stored() -> bool:
            count: int = self.client.query(COUNT_QUERY, fresh=True)["results"][0][0]
            stored.move_to(count)
            return count >= self.sent

        self._wait(lambda: with_retries(is_stored), f"{self.sent:,} events")

    def _make_objects(self, companies: Sequence[Company]) -> tuple[SurveyIds, Mapping[str, int]]:
        """Create what exists before the first event. Returns the ids that others refer to."""
        bar = self.progress.add_bar("objects", len(companies) + len(DEFINITIONS) + 20)
        for company in bar_steps(bar.advance, companies):
            self._post("groups/", _describe_company(company), "companies")
        for name, text in bar_steps(bar.advance, DEFINITIONS.items()):
            body = {"name": name, "description": text, "verified": True, "tags": ["product"]}
            self._post("event_definitions/", body, "event definitions")
        cohorts = {
            name: self._post("cohorts/", body, "cohorts")["id"]
            for name, body in bar_steps(bar.advance, build_cohorts().items())
        }
        flags = [
            self._post("feature_flags/", body, "feature flags")["id"]
            for body in bar_steps(bar.advance, build_flags(cohorts))
        ]
        self._post("feature_flags/", build_dependent_flag(flags[0]), "feature flags")
        for body in bar_steps(bar.advance, FEATURES):
            self._post("early_access_feature/", body, "early access features")
        for body in bar_steps(bar.advance, build_experiments(self.now)):
            self._post("experiments/", body, "experiments")
        surveys = [
            self._post("surveys/", body, "surveys")
            for body in bar_steps(bar.advance, build_surveys(self.now))
        ]
        for body in bar_steps(bar.advance, build_annotations(self.now)):
            self._post("annotations/", body, "annotations")
        rating, comment = (question["id"] for question in surveys[0]["questions"])
        return SurveyIds(survey=surveys[0]["id"], rating=rating, comment=comment), cohorts

    def _make_transformation(self) -> None:
        path = "pipeline_transformation_configs/"
        body = {"plugin": REMOVE_PROPERTIES, "name": "Forget card numbers"}
        record = self._post(path, body, "transformations")["id"]
        self.client.request("PUT", f"{path}{record}/config/", {"names": ["card_last4"]})
        self.client.request("PATCH", f"{path}{record}/", {"enabled": True})

    def _make_destinations(self) -> int:
        """Create one that works, and one that fails. Returns the id of that."""
        archive = {"folder": "fernleaf", "format": "jsonl"}
        self._make_destination(LOCAL_FILES, "Archive of invoices", archive)
        return self._make_destination(WEBHOOK, "Invoices to the CRM", FAILING_DESTINATION)

    def _make_destination(self, plugin: int, name: str, config: Mapping[str, Any]) -> int:
        path = "pipeline_destination_configs/"
        id: int = self._post(path, {"plugin": plugin, "name": name}, "destinations")["id"]
        self.client.request("PUT", f"{path}{id}/config/", config)
        self.client.request("PATCH", f"{path}{id}/", {"enabled": True})
        return id

    def _end_deliveries(self, failing: int, recent: Sequence[Mapping[str, Any]]) -> None:
        """Wait until the deliveries have been tried, then disable the destination."""
        path = f"pipeline_destination_configs/{failing}/"
        count = sum(event["event"] in FAILING_DESTINATION["events"] for event in recent)

        def is_tried() -> bool:
            found = self.client.request("GET", f"{path}deliveries/?limit=200")["results"]
            tried: int = sum(each["attempts"] > 0 for each in found)
            return tried >= count

        self._wait(is_tried, "deliveries")
        self.client.request("PATCH", path, {"enabled": False})

    def _make_insights(self, destination: int) -> None:
        actions = [self._post("actions/", body, "actions")["id"] for body in ACTIONS]
        saved = build_insights(actions[0])
        ids = [
            self._post(
                "insights/",
                {
                    "name": each.name,
                    "description": each.description,
                    "query": {"kind": "InsightVizNode", "source": each.query},
                },
                "insights",
            )["id"]
            for each in saved
        ]
        for key, name in (("product", "Product"), ("revenue", "Revenue")):
            own = [id for id, each in zip(ids, saved, strict=True) if each.dashboard == key]
            body = build_dashboard(key, name, own)
            self._post("dashboards/?refresh=blocking", body, "dashboards")
        assert set(DASHBOARDS) == {each.dashboard for each in saved}
        for body in build_alerts(ids[0], destination):
            self._post("alerts/", body, "alerts")

    def _describe_properties(self) -> None:
        for name, text in PROPERTIES.items():
            path = f"property_definitions/by_name/?type=event&name={quote_plus(name)}"
            found = self._wait(partial(self._find, path), f"the property {name}")
            self.client.request(
                "PATCH", f"property_definitions/{found['id']}/", {"description": text}
            )

    def _add_testers(self, persons: Sequence[DemoPerson], cohort: int) -> None:
        known = [person.user_id for person in persons if person.is_known][:TESTERS]
        self.client.request("PATCH", f"cohorts/{cohort}/", {"csv": "\n".join(known)})

    def _wait(self, find: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + WAIT_S
        while not (found := find()):
            if time.monotonic() > deadline:
                raise OperatorError(f"The service did not process {what} within {WAIT_S:.0f} s.")
            time.sleep(POLL_INTERVAL_S)
        return found

    def _find(self, path: str) -> Any:
        """Return an object, None if it does not exist yet."""
        try:
            return self.client.request("GET", path)
        except (OperatorError, AppError):
            return None

    def _post(self, path: str, body: Mapping[str, Any], counted: str) -> Any:
        self.counts[counted] = self.counts.get(counted, 0) + 1
        return self.client.request("POST", path, body)


def bar_steps(advance: Callable[[], None], items: Iterable[T]) -> Iterator[T]:
    """Yield items, and advance after each."""
    for item in items:
        yield item
        advance()


def _describe_company(company: Company) -> dict[str, Any]:
    properties = {
        "name": company.name,
        "industry": company.industry,
        "country": company.country,
        "size": company.size,
        "plan": company.plan,
    }
    return {"group_type": "company", "group_key": company.key, "group_properties": properties}
