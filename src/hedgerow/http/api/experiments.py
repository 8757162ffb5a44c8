"""Experiments: create, update, launch, end, archive, and their results."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar

import msgspec
from starlette.responses import Response

from hedgerow.errors import Invalid, NotFound
from hedgerow.experiments.experiments import (
    SCOPE,
    UNUSED_DOCUMENTS,
    ExperimentEdit,
    Experiments,
    ExperimentWithFlag,
)
from hedgerow.experiments.holdouts import HoldoutId, Holdouts
from hedgerow.experiments.known_fields import (
    POSTHOG_EXPERIMENT_FIELDS,
    drop_unchanged_documents,
)
from hedgerow.experiments.model import (
    Conclusion,
    Experiment,
    ExperimentId,
    ExperimentStatus,
    ExperimentType,
)
from hedgerow.experiments.result_types import ExperimentResults
from hedgerow.experiments.results import ExperimentAnalyzer
from hedgerow.experiments.store import NEWEST_FIRST, ORDERS, ExperimentQuery
from hedgerow.experiments.variants import (
    VARIANTS_PARAMETER,
    get_client_parameters,
    get_counted_flag,
)
from hedgerow.flags.model import KEY_MAX_CHARS, Flag, FlagId
from hedgerow.http.api.activity import activity_endpoint, respond_with_activity
from hedgerow.http.api.flags.summary import FlagItem, FlagRenderer
from hedgerow.http.api.people.users import render_user
from hedgerow.http.auth.access import in_project
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import Parameter, parse_boolean, parse_text
from hedgerow.http.payload.fields import INT64_MAX, OMITTED, Between, Boolean, Fields, Text
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib.clock import format_iso
from hedgerow.projects.directory import Directory
from hedgerow.projects.store import ActivityStore
from hedgerow.projects.validation import parse_date_parameter
from hedgerow.queries.queries import Refresh

NAME_MAX = 400
TEXT_MAX = 10_000
DATE_MAX = 64
FILTERS = (
    Parameter("search", "Only experiments whose name contains this text."),
    Parameter(
        "status",
        "Only draft, running, paused (the flag is off) or stopped (alias: complete) experiments.",
    ),
    Parameter("archived", "true lists archived experiments instead of the others."),
    Parameter("feature_flag_id", "Only experiments of the flag with this id."),
    Parameter("created_by_id", "Only experiments created by the user with this id."),
    Parameter("order", f"Sort by {', '.join(ORDERS)}. A leading hyphen sorts in descending order."),
)
REFRESH = Parameter(
    "refresh",
    "true or force_blocking recomputes the results; false or blocking may return cached ones.",
)
READ = in_project("experiment:read")
WRITE = in_project("experiment:write")


class ExperimentItem(msgspec.Struct, kw_only=True):
    """An experiment. `parameters` shows the variants that the flag serves."""

    id: int
    name: str
    description: str
    type: str
    status: str
    start_date: str | None
    end_date: str | None
    feature_flag_key: str
    feature_flag: FlagItem
    holdout: Mapping[str, Any] | None
    holdout_id: Any
    exposure_cohort: int | None
    parameters: Mapping[str, Any]
    filters: Any
    metrics: Sequence[Any]
    metrics_secondary: Sequence[Any]
    secondary_metrics: Sequence[Any]
    saved_metrics: Sequence[Any]
    exposure_criteria: Mapping[str, Any]
    stats_config: Mapping[str, Any]
    conclusion: str | None
    conclusion_comment: str | None
    archived: bool
    deleted: bool
    created_by: Mapping[str, Any] | None
    created_at: str
    updated_at: str
    user_access_level: str


class ExperimentEnd(Fields):
    # `open_cleanup_pr` and `send_notification` are options of PostHog's client.
    ignored_fields: ClassVar[frozenset[str] | None] = frozenset(
        ("open_cleanup_pr", "send_notification")
    )

    conclusion: Conclusion | None = None
    conclusion_comment: Annotated[str, Text(TEXT_MAX, blank=True)] | None = None

    def to_edit(self, now: datetime) -> dict[str, Any]:
        """The fields present in the body, in the form that `Experiments` accepts."""
        found = {name: getattr(self, name) for name in self.model_fields_set}
        if "conclusion_comment" in found:
            found["conclusion_comment"] = found["conclusion_comment"] or ""
        return found


class ExperimentBody(ExperimentEnd):
    """The writable fields. A `start_date` launches the experiment, an `end_date` ends it, and null
    for both resets it to a draft. `holdout_id` names a holdout, null for none; `holdout` is one of
    this experiment alone, an object with `id` and `exclusion_percentage`."""

    ignored_fields: ClassVar[frozenset[str] | None] = POSTHOG_EXPERIMENT_FIELDS

    name: Annotated[str, Text(NAME_MAX)] = OMITTED
    description: Annotated[str, Text(TEXT_MAX, blank=True)] | None = None
    type: ExperimentType | None = None
    start_date: Annotated[str, Text(DATE_MAX)] | None = None
    end_date: Annotated[str, Text(DATE_MAX)] | None = None
    feature_flag_key: Annotated[str, Text(KEY_MAX_CHARS)] = OMITTED
    archived: Boolean = OMITTED
    deleted: Boolean = OMITTED
    parameters: dict[str, Any] | None = None
    metrics: list[Any] | None = None
    metrics_secondary: list[Any] | None = None
    exposure_criteria: dict[str, Any] | None = None
    stats_config: dict[str, Any] | None = None
    holdout: dict[str, Any] | None = None
    holdout_id: Annotated[int, Between(1, INT64_MAX)] | None = None
    feature_flag: dict[str, Any] | None = None
    filters: dict[str, Any] | None = None
    secondary_metrics: list[Any] | None = None
    saved_metrics: list[Any] | None = None

    def to_edit(self, now: datetime) -> dict[str, Any]:
        found = super().to_edit(now)
        found.pop("feature_flag_key", None)
        _check_flag_is_read_only(found.pop("feature_flag", None))
        for name in ("start_date", "end_date"):
            if found.get(name) is not None:
                found[name] = _parse_date(found[name], name, now)
        for name, empty in _EMPTY.items():
            if name in found and found[name] is None:
                found[name] = empty
        rest = {name: found.pop(name) for name in UNUSED_DOCUMENTS if name in found}
        return found | ({"rest": rest} if rest else {})


class NewExperiment(ExperimentBody):
    """If no flag has the key `feature_flag_key`, one is created with
    `parameters.feature_flag_variants`, by default control and test."""

    name: Annotated[str, Text(NAME_MAX)]
    feature_flag_key: Annotated[str, Text(KEY_MAX_CHARS)]


# The values that replace null in fields that are not nullable.
_EMPTY: Mapping[str, Any] = {
    "description": "",
    "type": ExperimentType.PRODUCT,
    "parameters": {},
    "metrics": [],
    "metrics_secondary": [],
    "exposure_criteria": {},
    "stats_config": {},
    "filters": {},
    "secondary_metrics": [],
    "saved_metrics": [],
}


def _parse_date(text: str, attr: str, now: datetime) -> datetime:
    """Times without an offset are UTC, as everywhere in the API."""
    return parse_date_parameter(text, now, UTC, attr)


def _check_flag_is_read_only(flag: Mapping[str, Any] | None) -> None:
    """PostHog ignores the flag of a response that is sent back, which has an id. Without an id it
    is the configuration of a flag."""
    if flag and flag.get("id") is None:
        raise Invalid(
            "The flag cannot be configured by this field. Send `parameters.feature_flag_variants` "
            "and `parameters.rollout_percentage`, or change the flag itself.",
            attr="feature_flag",
            code="not_supported",
        )


def _render_parameters(experiment: Experiment, flag: Flag) -> dict[str, Any]:
    return {
        **get_client_parameters(experiment),
        VARIANTS_PARAMETER: get_counted_flag(experiment, flag).variants,
    }


def _render_experiment(
    call: ProjectCall, found: ExperimentWithFlag, flag_item: FlagItem
) -> ExperimentItem:
    experiment, flag = found
    start, end = experiment.start_date, experiment.end_date
    holdout = experiment.holdout
    return ExperimentItem(
        id=experiment.id,
        name=experiment.name,
        description=experiment.description,
        type=experiment.type.value,
        status=experiment.status.value,
        start_date=format_iso(start) if start else None,
        end_date=format_iso(end) if end else None,
        feature_flag_key=flag.key,
        feature_flag=flag_item,
        holdout=holdout,
        holdout_id=holdout.get("id") if holdout else None,
        exposure_cohort=None,
        parameters=_render_parameters(experiment, flag),
        filters=experiment.rest.get("filters", {}),
        metrics=experiment.metrics,
        metrics_secondary=experiment.metrics_secondary,
        secondary_metrics=experiment.rest.get("secondary_metrics", []),
        saved_metrics=experiment.rest.get("saved_metrics", []),
        exposure_criteria=experiment.exposure_criteria,
        stats_config=experiment.stats_config,
        conclusion=experiment.conclusion,
        conclusion_comment=experiment.conclusion_comment or None,
        archived=experiment.archived,
        deleted=experiment.deleted,
        created_by=render_user(call, experiment.created_by),
        created_at=format_iso(experiment.created_at),
        updated_at=format_iso(experiment.updated_at),
        user_access_level="manager",
    )


def _parse_id(call: ProjectCall) -> ExperimentId:
    number = _parse_digits(call.path_param("experiment_id", {"activity": "GET, HEAD"}))
    if number is None:
        raise NotFound
    return ExperimentId(number)


def _parse_integer(call: ProjectCall, name: str) -> int | None:
    """An integer query parameter, or None if it is absent."""
    if not (text := call.query_param(name)):
        return None
    if (number := _parse_digits(text)) is None:
        raise Invalid("A valid integer is required.", attr=name)
    return number


def _parse_digits(text: str) -> int | None:
    if not (text.isascii() and text.isdecimal()) or (number := int(text[:30])) > INT64_MAX:
        return None
    return number


def _parse_refresh(text: str) -> bool:
    """Accepts the `refresh` modes of queries and booleans."""
    if text in (Refresh.BLOCKING, Refresh.FORCE_BLOCKING):
        return text == Refresh.FORCE_BLOCKING
    return parse_boolean(text, "refresh") or False


# PostHog's names for the state of an experiment. A running experiment with its flag off is paused.
_STATUS_FILTERS: Mapping[str, Mapping[str, Any]] = {
    "draft": {"status": ExperimentStatus.DRAFT},
    "running": {"status": ExperimentStatus.RUNNING, "is_on": True},
    "paused": {"status": ExperimentStatus.RUNNING, "is_on": False},
    "stopped": {"status": ExperimentStatus.STOPPED},
    "complete": {"status": ExperimentStatus.STOPPED},
}


def _parse_status(text: str) -> Mapping[str, Any]:
    """An unknown status does not filter."""
    return _STATUS_FILTERS.get(text.lower(), {})


class ExperimentEndpoints:
    tag = "Experiments"

    def __init__(
        self,
        activity: ActivityStore,
        directory: Directory,
        holdouts: Holdouts,
        results: ExperimentAnalyzer,
        experiments: Experiments,
        flag_renderer: FlagRenderer,
    ) -> None:
        self._activity = activity
        self._directory = directory
        self._holdouts = holdouts
        self._results = results
        self._experiments = experiments
        self._flag_renderer = flag_renderer

    async def _read_edit(self, call: ProjectCall, body: ExperimentBody) -> dict[str, Any]:
        """Return the edit, with the holdout that `holdout_id` names. A `holdout` wins over it."""
        edit = body.to_edit(call.now)
        if "holdout_id" not in edit:
            return edit
        id = edit.pop("holdout_id")
        if "holdout" in edit:
            return edit
        if id is None:
            return {**edit, "holdout": None}
        try:
            found = await self._holdouts.find(call.project, HoldoutId(id))
        except NotFound:
            detail = f'There is no holdout with the id "{id}".'
            raise Invalid(detail, attr="holdout_id", code="does_not_exist") from None
        return {**edit, "holdout": found.document}

    async def _respond(
        self, call: ProjectCall, found: ExperimentWithFlag, status: int = 200
    ) -> Response:
        flag_item = await self._flag_renderer.render_one(call, found[1])
        return JsonResponse(_render_experiment(call, found, flag_item), status_code=status)

    @endpoint(
        "GET",
        *project_paths("experiments/"),
        access=READ,
        response=Page[ExperimentItem],
        query=PAGE_PARAMETERS + FILTERS,
    )
    async def list_experiments(self, call: ProjectCall) -> Response:
        """List the project's experiments, newest first, without deleted and archived ones.
        `archived=true` lists the archived experiments."""
        window = call.window
        search = parse_text(call.query_param("search"), "search")
        flag_id = _parse_integer(call, "feature_flag_id")
        creator_id = _parse_integer(call, "created_by_id")
        order = call.query_param("order") or NEWEST_FIRST
        query = ExperimentQuery(
            search=search.strip()[:NAME_MAX],
            **_parse_status(call.query_param("status") or ""),
            created_by=None if creator_id is None else self._directory.get_email(creator_id),
            archived=parse_boolean(call.query_param("archived") or "false", "archived"),
            flag_id=None if flag_id is None else FlagId(flag_id),
            order=order if order.removeprefix("-") in ORDERS else NEWEST_FIRST,
            limit=window.limit,
            offset=window.offset,
        )
        found, count = await self._experiments.list_experiments(call.project, query)
        links = await self._flag_renderer.load_links(call.project)
        listed = [
            _render_experiment(call, each, self._flag_renderer.render(call, each[1], links))
            for each in found
        ]
        return JsonResponse(call.page(count, listed))

    @endpoint(
        "POST",
        *project_paths("experiments/"),
        access=WRITE,
        response=ExperimentItem,
        status=201,
        body=NewExperiment,
    )
    async def create_experiment(self, call: ProjectCall) -> Response:
        """Create an experiment for an existing flag, or together with a new one."""
        body = await call.body(NewExperiment)
        edit = await self._read_edit(call, body)
        if edit.get("deleted"):
            raise Invalid(
                "A new experiment cannot be deleted. Leave out `deleted`.", attr="deleted"
            )
        created = await self._experiments.create(
            call.project, body.feature_flag_key, edit, call.actor, call.now
        )
        return await self._respond(call, created, 201)

    @endpoint(
        "GET", *project_paths("experiments/{experiment_id}/"), access=READ, response=ExperimentItem
    )
    async def retrieve_experiment(self, call: ProjectCall) -> Response:
        """Retrieve an experiment."""
        found = await self._experiments.find(call.project, _parse_id(call))
        return await self._respond(call, found)

    @endpoint(
        "PATCH",
        *project_paths("experiments/{experiment_id}/"),
        access=WRITE,
        response=ExperimentItem,
        body=ExperimentBody,
    )
    async def change_experiment(self, call: ProjectCall) -> Response:
        """Update the given fields. `deleted: false` restores a deleted experiment."""
        id = _parse_id(call)
        before, flag = await self._experiments.find(call.project, id, deleted_too=True)
        body = await call.body(ExperimentBody)
        if before.deleted and body.deleted is not False:
            raise NotFound
        if "feature_flag_key" in body.model_fields_set and body.feature_flag_key != flag.key:
            raise Invalid("The flag of an experiment cannot be changed.", attr="feature_flag_key")
        edit = drop_unchanged_documents(
            await self._read_edit(call, body), before, _render_parameters(before, flag)
        )
        changed = await self._experiments.change(call.project, id, edit, call.actor, call.now)
        return await self._respond(call, changed)

    @endpoint("DELETE", *project_paths("experiments/{experiment_id}/"), access=WRITE, status=204)
    async def delete_experiment(self, call: ProjectCall) -> Response:
        """Delete an experiment. Its flag remains. Restore the experiment with `deleted: false`."""
        id = _parse_id(call)
        await self._experiments.delete(call.project, id, call.actor, call.now)
        return no_content()

    @endpoint(
        "POST",
        *project_paths("experiments/{experiment_id}/launch/"),
        access=WRITE,
        response=ExperimentItem,
    )
    async def launch_experiment(self, call: ProjectCall) -> Response:
        """Launch an experiment: count exposures from now on and enable the flag."""
        id = _parse_id(call)
        return await self._respond(
            call, await self._experiments.launch(call.project, id, call.actor, call.now)
        )

    @endpoint(
        "POST",
        *project_paths("experiments/{experiment_id}/end/"),
        access=WRITE,
        response=ExperimentItem,
        body=ExperimentEnd,
    )
    async def end_experiment(self, call: ProjectCall) -> Response:
        """End an experiment: stop counting. The flag keeps its current state."""
        id = _parse_id(call)
        await self._experiments.find(call.project, id)
        conclusion: ExperimentEdit = (await call.body(ExperimentEnd)).to_edit(call.now)
        ended = await self._experiments.end(call.project, id, conclusion, call.actor, call.now)
        return await self._respond(call, ended)

    @endpoint(
        "POST",
        *project_paths("experiments/{experiment_id}/archive/"),
        access=WRITE,
        response=ExperimentItem,
    )
    async def archive_experiment(self, call: ProjectCall) -> Response:
        """Archive an experiment that has ended."""
        id = _parse_id(call)
        return await self._respond(
            call, await self._experiments.archive(call.project, id, call.actor, call.now)
        )

    @endpoint(
        "POST",
        *project_paths("experiments/{experiment_id}/reset/"),
        access=WRITE,
        response=ExperimentItem,
    )
    async def reset_experiment(self, call: ProjectCall) -> Response:
        """Reset an experiment to a draft. The flag keeps its current state; earlier exposures no
        longer count."""
        id = _parse_id(call)
        return await self._respond(
            call, await self._experiments.reset(call.project, id, call.actor, call.now)
        )

    @endpoint(
        "GET",
        *project_paths("experiments/{experiment_id}/results/"),
        access=READ,
        response=ExperimentResults,
        query=(REFRESH,),
    )
    async def retrieve_experiment_results(self, call: ProjectCall) -> Response:
        """Retrieve exposures and metrics by variant, with the statistical comparison. Results are
        cached until the data or the experiment changes; `refresh` recomputes them."""
        id = _parse_id(call)
        experiment, flag = await self._experiments.find(call.project, id)
        is_forced = _parse_refresh(call.query_param("refresh") or "false")
        results = await call.while_connected(
            self._results.analyze(call.project, experiment, flag, call.now, refresh=is_forced)
        )
        return JsonResponse(results)

    @activity_endpoint("experiments/{experiment_id}/activity/", READ)
    async def list_experiment_activity(self, call: ProjectCall) -> Response:
        """List the changes made to an experiment, newest first. Works for deleted experiments
        too."""
        id = _parse_id(call)
        await self._experiments.find(call.project, id, deleted_too=True)
        return await respond_with_activity(call, self._activity, SCOPE, str(id))

    @activity_endpoint("experiments/activity/", READ)
    async def list_experiments_activity(self, call: ProjectCall) -> Response:
        """List the changes made to all experiments, newest first."""
        return await respond_with_activity(call, self._activity, SCOPE)
