"""Experiments: their management, their life from launch to archive, and their results."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from hedgerow.errors import Invalid, MethodNotAllowed, NotFound
from hedgerow.events.dates import asked_moment
from hedgerow.experiments.answer import Results
from hedgerow.experiments.experiments import REST, SCOPE, Edit, Found
from hedgerow.experiments.model import Conclusion, ExperimentId, Kind, Status
from hedgerow.experiments.store import NEWEST_FIRST, ORDERS, ExperimentQuery
from hedgerow.experiments.variants import KEPT, seen_of, shown_parameters
from hedgerow.flags.model import KEY_MAX, FlagId
from hedgerow.http.access import ProjectCall, in_project
from hedgerow.http.activity import PAGE, ActivityPage, activity_page
from hedgerow.http.describe import Parameter, describes
from hedgerow.http.fields import INT64_MAX, LEFT_OUT, Boolean, Fields, Text, asked_truth
from hedgerow.http.flags import FlagItem, Ties, person, ties_of
from hedgerow.http.flags import item as flag_item
from hedgerow.http.paging import WINDOW, Page, page
from hedgerow.http.reply import JsonResponse, no_content
from hedgerow.lib.clock import iso
from hedgerow.lib.text import why_unstorable
from hedgerow.projects.store import ActivityQuery
from hedgerow.queries.queries import Refresh

router = APIRouter(tags=["Experiments"])

BASES = tuple(f"/api/{root}/{{project_id}}/experiments/" for root in ("projects", "environments"))
NAME_MAX = 400
TEXT_MAX = 10_000
DATE_MAX = 64
FILTERS = (
    Parameter("search", "Only those with this text in their name."),
    Parameter("status", "Only draft, running, paused (flag off) or stopped (also: complete)."),
    Parameter("archived", "Archived ones (true) instead of the others."),
    Parameter("feature_flag_id", "Only those of this flag."),
    Parameter("created_by_id", "Only those that the user with this id has made."),
    Parameter("order", f"{', '.join(ORDERS)}; with a hyphen before it from the last on."),
)

REFRESH = Parameter("refresh", "Count anew: true or force_blocking. Otherwise false or blocking.")

READ = in_project("experiment:read")
WRITE = in_project("experiment:write")


class ExperimentItem(msgspec.Struct, kw_only=True):
    """An experiment in PostHog's words. Variants in `parameters` are those that people see."""

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


class Ending(Fields):
    conclusion: Conclusion | None = None
    conclusion_comment: Annotated[str, Text(TEXT_MAX, blank=True)] | None = None

    def edit(self, call: ProjectCall) -> dict[str, Any]:
        """What was sent, as the room takes it."""
        found = {name: getattr(self, name) for name in self.model_fields_set}
        if "conclusion_comment" in found:
            found["conclusion_comment"] = found["conclusion_comment"] or ""
        return found


class ExperimentBody(Ending):
    """The writable fields. A `start_date` launches it, an `end_date` ends it, and null for both
    makes it a draft again. `holdout` is an object with an `id` and an `exclusion_percentage`."""

    name: Annotated[str, Text(NAME_MAX)] = LEFT_OUT
    description: Annotated[str, Text(TEXT_MAX, blank=True)] | None = None
    type: Kind | None = None
    start_date: Annotated[str, Text(DATE_MAX)] | None = None
    end_date: Annotated[str, Text(DATE_MAX)] | None = None
    feature_flag_key: Annotated[str, Text(KEY_MAX)] = LEFT_OUT
    archived: Boolean = LEFT_OUT
    deleted: Boolean = LEFT_OUT
    parameters: dict[str, Any] | None = None
    metrics: list[Any] | None = None
    metrics_secondary: list[Any] | None = None
    exposure_criteria: dict[str, Any] | None = None
    stats_config: dict[str, Any] | None = None
    holdout: dict[str, Any] | None = None
    holdout_id: int | None = None
    filters: dict[str, Any] | None = None
    secondary_metrics: list[Any] | None = None
    saved_metrics: list[Any] | None = None

    def edit(self, call: ProjectCall) -> dict[str, Any]:
        found = super().edit(call)
        found.pop("feature_flag_key", None)
        if found.pop("holdout_id", None) is not None and found.get("holdout") is None:
            detail = 'There are no holdouts by id here: send {"id", "exclusion_percentage"}.'
            raise Invalid(detail, attr="holdout_id")
        for name in ("start_date", "end_date"):
            if found.get(name) is not None:
                found[name] = _moment(found[name], name, call)
        for name, empty in _EMPTY.items():
            if name in found and found[name] is None:
                found[name] = empty
        rest = {name: found.pop(name) for name in REST if name in found}
        return found | ({"rest": rest} if rest else {})


class NewExperiment(ExperimentBody):
    """Without a flag of that key one is made, with `parameters.feature_flag_variants` or with
    control and test."""

    name: Annotated[str, Text(NAME_MAX)]
    feature_flag_key: Annotated[str, Text(KEY_MAX)]


# What null means for a field that cannot be null.
_EMPTY: Mapping[str, Any] = {
    "description": "",
    "type": Kind.PRODUCT,
    "parameters": {},
    "metrics": [],
    "metrics_secondary": [],
    "exposure_criteria": {},
    "stats_config": {},
    "filters": {},
    "secondary_metrics": [],
    "saved_metrics": [],
}


def _moment(text: str, attr: str, call: ProjectCall) -> datetime:
    """Without an offset it is UTC, as in all of the API."""
    return asked_moment(text, call.now, UTC, attr)


def item(call: ProjectCall, found: Found, ties: Ties) -> ExperimentItem:
    experiment, flag = found
    start, end = experiment.start_date, experiment.end_date
    holdout = experiment.holdout
    return ExperimentItem(
        id=experiment.id,
        name=experiment.name,
        description=experiment.description,
        type=experiment.type.value,
        status=experiment.status.value,
        start_date=iso(start) if start else None,
        end_date=iso(end) if end else None,
        feature_flag_key=flag.key,
        feature_flag=flag_item(call, flag, ties),
        holdout=holdout,
        holdout_id=holdout.get("id") if holdout else None,
        exposure_cohort=None,
        parameters={**shown_parameters(experiment), KEPT: seen_of(experiment, flag).variants},
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
        created_by=person(call, experiment.created_by),
        created_at=iso(experiment.created_at),
        updated_at=iso(experiment.updated_at),
        user_access_level="manager",
    )


async def _answer(call: ProjectCall, found: Found, status: int = 200) -> Response:
    return JsonResponse(item(call, found, await ties_of(call)), status_code=status)


def _id(call: ProjectCall, experiment_id: str) -> ExperimentId:
    if experiment_id == "activity":  # a path of its own, which does not take this method
        raise MethodNotAllowed(call.request.method, ["GET, HEAD", "OPTIONS"])
    if (number := _number(experiment_id)) is None:
        raise NotFound
    return ExperimentId(number)


def _asked_number(call: ProjectCall, name: str) -> int | None:
    """None where it was not asked for."""
    if not (text := call.asked(name)):
        return None
    if (number := _number(text)) is None:
        raise Invalid("A valid integer is required.", attr=name)
    return number


def _number(text: str) -> int | None:
    if not (text.isascii() and text.isdecimal()) or (number := int(text[:30])) > INT64_MAX:
        return None
    return number


@describes(answer=Page[ExperimentItem], query=WINDOW + FILTERS)
async def list_experiments(call: Annotated[ProjectCall, READ]) -> Response:
    """The project's experiments that are neither deleted nor archived, newest first. With
    `archived=true` those that are archived."""
    asked = call.window
    search = call.asked("search") or ""
    if unstorable := why_unstorable(search):
        raise Invalid(unstorable[1], attr="search", code=unstorable[0])
    flag_id = _asked_number(call, "feature_flag_id")
    maker = _asked_number(call, "created_by_id")
    order = call.asked("order") or NEWEST_FIRST
    query = ExperimentQuery(
        search=search.strip()[:NAME_MAX],
        **_standing(call.asked("status") or ""),
        created_by=None if maker is None else call.rooms.directory.email_of(maker),
        archived=asked_truth(call.asked("archived") or "false", "archived"),
        flag_id=None if flag_id is None else FlagId(flag_id),
        order=order if order.removeprefix("-") in ORDERS else NEWEST_FIRST,
        limit=asked.limit,
        offset=asked.offset,
    )
    found, count = await call.rooms.experiments.listing(call.project, query)
    ties = await ties_of(call)
    listed = [item(call, each, ties) for each in found]
    return JsonResponse(page(call.request, call.rooms.origins, asked, count, listed))


@describes(answer=ExperimentItem, status=201, body=NewExperiment)
async def create_experiment(call: Annotated[ProjectCall, WRITE]) -> Response:
    """Make an experiment, with a flag of its own or with one that is there."""
    body = await call.body(NewExperiment)
    edit = body.edit(call)
    if edit.get("deleted"):
        raise Invalid("An experiment is made before it is deleted.", attr="deleted")
    made = await call.rooms.experiments.create(
        call.project, body.feature_flag_key, edit, call.actor, call.now
    )
    return await _answer(call, made, 201)


@describes(answer=ExperimentItem)
async def retrieve_experiment(experiment_id: str, call: Annotated[ProjectCall, READ]) -> Response:
    """One experiment."""
    found = await call.rooms.experiments.find(call.project, _id(call, experiment_id))
    return await _answer(call, found)


@describes(answer=ExperimentItem, body=ExperimentBody)
async def change_experiment(experiment_id: str, call: Annotated[ProjectCall, WRITE]) -> Response:
    """Change some fields. `deleted: false` restores a deleted experiment."""
    id = _id(call, experiment_id)
    before, flag = await call.rooms.experiments.find(call.project, id, deleted_too=True)
    body = await call.body(ExperimentBody)
    if before.deleted and body.deleted is not False:
        raise NotFound
    if "feature_flag_key" in body.model_fields_set and body.feature_flag_key != flag.key:
        raise Invalid("An experiment keeps its flag.", attr="feature_flag_key")
    changed = await call.rooms.experiments.change(
        call.project, id, body.edit(call), call.actor, call.now
    )
    return await _answer(call, changed)


@describes(status=204)
async def delete_experiment(experiment_id: str, call: Annotated[ProjectCall, WRITE]) -> Response:
    """Delete an experiment. Its flag stays, and it can be restored by its id."""
    id = _id(call, experiment_id)
    await call.rooms.experiments.delete(call.project, id, call.actor, call.now)
    return no_content()


@describes(answer=ExperimentItem)
async def launch_experiment(experiment_id: str, call: Annotated[ProjectCall, WRITE]) -> Response:
    """Begin: exposures count from now on, and the flag is switched on."""
    id = _id(call, experiment_id)
    return await _answer(
        call, await call.rooms.experiments.launch(call.project, id, call.actor, call.now)
    )


@describes(answer=ExperimentItem, body=Ending)
async def end_experiment(experiment_id: str, call: Annotated[ProjectCall, WRITE]) -> Response:
    """End: nothing counts from now on. The flag goes on as it is."""
    id = _id(call, experiment_id)
    await call.rooms.experiments.find(call.project, id)
    conclusion: Edit = (await call.body(Ending)).edit(call)
    ended = await call.rooms.experiments.end(call.project, id, conclusion, call.actor, call.now)
    return await _answer(call, ended)


@describes(answer=ExperimentItem)
async def archive_experiment(experiment_id: str, call: Annotated[ProjectCall, WRITE]) -> Response:
    """Put an experiment that has ended out of sight."""
    id = _id(call, experiment_id)
    return await _answer(
        call, await call.rooms.experiments.archive(call.project, id, call.actor, call.now)
    )


@describes(answer=ExperimentItem)
async def reset_experiment(experiment_id: str, call: Annotated[ProjectCall, WRITE]) -> Response:
    """Back to a draft. The flag goes on as it is; what was counted counts no longer."""
    id = _id(call, experiment_id)
    return await _answer(
        call, await call.rooms.experiments.reset(call.project, id, call.actor, call.now)
    )


@describes(answer=Results, query=(REFRESH,))
async def experiment_results(experiment_id: str, call: Annotated[ProjectCall, READ]) -> Response:
    """Who was exposed to which variant, what they did, and how the variants compare. Nothing is
    counted again while nothing has changed, unless `refresh` says so."""
    id = _id(call, experiment_id)
    experiment, flag = await call.rooms.experiments.find(call.project, id)
    anew = _is_forced(call.asked("refresh") or "false")
    results = await call.rooms.experiment_results.of(
        call.project, experiment, flag, call.now, anew=anew
    )
    return JsonResponse(results)


@describes(answer=ActivityPage, query=PAGE)
async def experiment_activity(experiment_id: str, call: Annotated[ProjectCall, READ]) -> Response:
    """Who changed what in this experiment, newest first. Also for one that was deleted."""
    id = _id(call, experiment_id)
    await call.rooms.experiments.find(call.project, id, deleted_too=True)
    query = ActivityQuery(project_id=call.project.id, scope=SCOPE, item_id=str(id))
    return await activity_page(call, query)


@describes(answer=ActivityPage, query=PAGE)
async def experiments_activity(call: Annotated[ProjectCall, READ]) -> Response:
    """Who changed what in any experiment, newest first."""
    return await activity_page(call, ActivityQuery(project_id=call.project.id, scope=SCOPE))


def _is_forced(text: str) -> bool:
    """`refresh` in the words of queries."""
    if text in (Refresh.BLOCKING, Refresh.FORCE_BLOCKING):
        return text == Refresh.FORCE_BLOCKING
    return asked_truth(text, "refresh") or False


# What PostHog calls how an experiment stands. One is paused whose flag is off for a while.
_STANDING: Mapping[str, Mapping[str, Any]] = {
    "draft": {"status": Status.DRAFT},
    "running": {"status": Status.RUNNING, "is_on": True},
    "paused": {"status": Status.RUNNING, "is_on": False},
    "stopped": {"status": Status.STOPPED},
    "complete": {"status": Status.STOPPED},
}


def _standing(text: str) -> Mapping[str, Any]:
    """Nothing for what is no status: it is no filter then."""
    return _STANDING.get(text.lower(), {})


for base in BASES:
    router.get(base)(list_experiments)
    router.post(base)(create_experiment)
    router.get(base + "activity/")(experiments_activity)
    router.get(base + "{experiment_id}/")(retrieve_experiment)
    router.patch(base + "{experiment_id}/")(change_experiment)
    router.delete(base + "{experiment_id}/")(delete_experiment)
    router.get(base + "{experiment_id}/activity/")(experiment_activity)
    router.get(base + "{experiment_id}/results/")(experiment_results)
    router.post(base + "{experiment_id}/launch/")(launch_experiment)
    router.post(base + "{experiment_id}/end/")(end_experiment)
    router.post(base + "{experiment_id}/archive/")(archive_experiment)
    router.post(base + "{experiment_id}/reset/")(reset_experiment)
