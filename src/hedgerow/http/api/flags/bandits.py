"""Bandits: the split of a flag moves towards the variant that is best by a metric."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar

import msgspec
from starlette.responses import Response

from hedgerow.errors import Invalid, NotFound
from hedgerow.experiments.model import ExperimentId
from hedgerow.flags.approvals.model import ApprovalRequired
from hedgerow.flags.flags import describe_actor
from hedgerow.flags.model import FlagId
from hedgerow.http.api.activity import activity_endpoint, respond_with_activity
from hedgerow.http.api.flags.change_request_items import ChangeRequester, build_refusal
from hedgerow.http.api.people.users import render_user
from hedgerow.http.auth.access import in_project
from hedgerow.http.auth.personal_key import check_scope
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import Parameter, parse_choice, parse_positive, parse_text
from hedgerow.http.payload.fields import INT64_MAX, OMITTED, Between, Fields, Text
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib import jsonio
from hedgerow.lib.clock import format_iso
from hedgerow.projects.store import ActivityStore
from hedgerow.projects.validation import check_storable
from hedgerow.rollouts.bandits import transitions
from hedgerow.rollouts.bandits.approvals import propose_start
from hedgerow.rollouts.bandits.bandits import Bandits, MakeBanditTransition
from hedgerow.rollouts.bandits.model import (
    DEFAULT_FLOOR_PERCENT,
    DEFAULT_INTERVAL_S,
    DEFAULT_MIN_PERSONS,
    LEAST_MIN_PERSONS,
    MAX_INTERVAL_S,
    MIN_INTERVAL_S,
    MOST_MIN_PERSONS,
    NAME_MAX_CHARS,
    Allocation,
    Bandit,
    BanditId,
    BanditState,
)
from hedgerow.rollouts.bandits.store import BanditFilter
from hedgerow.rollouts.bandits.transitions import SCOPE
from hedgerow.rollouts.guides import GuideAuthor

SEARCH_MAX_CHARS = 200
MAX_DOCUMENT_BYTES = 64 * 1024
MAX_FLOOR_PERCENT = 50
READ = in_project("feature_flag:read")
WRITE = in_project("feature_flag:write")
QUERY_SCOPE = "query:read"
EXPERIMENT_SCOPE = "experiment:read"
# Fields that are returned, without effect when they are sent back.
RETURNED_FIELDS = frozenset(
    (
        *("id", "flag_key", "state", "reason", "split", "learning_since", "started_at", "ended_at"),
        *("next_check_at", "last_checked_at", "variants", "change_request_id", "version"),
        *("created_at", "created_by", "updated_at"),
    )
)
LIST_PARAMETERS = (
    Parameter("search", "Only bandits with this in their name or in the key of their flag."),
    Parameter("flag", "Only bandits of the flag with this id."),
    Parameter("state", f"Only bandits in this state: {', '.join(BanditState)}."),
)


class PosteriorItem(msgspec.Struct, kw_only=True):
    """What is known about the value of a variant: a beta distribution for conversions, Student's
    for ratios. The value is between `low` and `high` with a probability of 95 %."""

    distribution: str
    mean: float
    low: float
    high: float


class VariantEvidence(msgspec.Struct, kw_only=True):
    """What is known about a variant, and its split before and after. `total` are the conversions,
    or the sum of the numerator of a ratio, which also has a `denominator`."""

    key: str
    persons: int
    total: float | None
    denominator: float | None
    value: float | None
    posterior: PosteriorItem | None
    probability_best: float | None
    rollout_percentage_before: float
    rollout_percentage: float


class AllocationItem(msgspec.Struct, kw_only=True):
    """An entry of the history: what happened and why, and the evidence at this time."""

    kind: str
    created_at: str
    why: str
    variants: Sequence[VariantEvidence]


class BanditItem(msgspec.Struct, kw_only=True):
    """A bandit. `split` are the percentages that it has left, `variants` the latest evidence.
    `reason` says why the bandit is in its state or why the split is as it is. People who are
    exposed from `learning_since` on count."""

    id: int
    flag: int
    flag_key: str
    name: str
    metric: Mapping[str, Any]
    exposure_criteria: Mapping[str, Any]
    floor_percent: int
    interval_seconds: int
    min_persons: int
    state: str
    reason: str
    split: Mapping[str, float]
    learning_since: str | None
    started_at: str | None
    ended_at: str | None
    next_check_at: str | None
    last_checked_at: str | None
    variants: Sequence[VariantEvidence]
    change_request_id: str | None
    version: int
    created_at: str
    created_by: Mapping[str, Any] | None
    updated_at: str


class BanditBody(Fields):
    """`metric` is a metric of experiments, a funnel or a ratio; `exposure_criteria` say who counts,
    as in experiments. Each variant keeps at least `floor_percent`. The split is computed every
    `interval_seconds`, once `min_persons` of each variant are known."""

    ignored_fields: ClassVar[frozenset[str] | None] = RETURNED_FIELDS

    flag: Annotated[int, Between(1, INT64_MAX)] = OMITTED
    name: Annotated[str, Text(NAME_MAX_CHARS, blank=True)] = OMITTED
    metric: dict[str, Any] = OMITTED
    exposure_criteria: dict[str, Any] = OMITTED
    floor_percent: Annotated[int, Between(1, MAX_FLOOR_PERCENT)] = OMITTED
    interval_seconds: Annotated[int, Between(MIN_INTERVAL_S, MAX_INTERVAL_S)] = OMITTED
    min_persons: Annotated[int, Between(LEAST_MIN_PERSONS, MOST_MIN_PERSONS)] = OMITTED

    def to_fields(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.model_fields_set}
        if "flag" in fields:
            fields["flag_id"] = FlagId(fields.pop("flag"))
        if "interval_seconds" in fields:
            fields["interval"] = timedelta(seconds=fields.pop("interval_seconds"))
        for name in ("metric", "exposure_criteria"):
            check_storable(fields.get(name), name)
            if len(jsonio.encode(fields.get(name))) > MAX_DOCUMENT_BYTES:
                detail = f"Expected at most {MAX_DOCUMENT_BYTES} bytes."
                raise Invalid(detail, attr=name, code="max_length")
        return fields


class NewBandit(BanditBody):
    """Either `flag` and `metric`, or `experiment`: then the flag, the first metric and the exposure
    criteria of the experiment are copied."""

    experiment: Annotated[int, Between(1, INT64_MAX)] = OMITTED

    def to_fields(self) -> dict[str, Any]:
        defaults: dict[str, Any] = {
            "name": "",
            "exposure_criteria": {},
            "floor_percent": DEFAULT_FLOOR_PERCENT,
            "interval": timedelta(seconds=DEFAULT_INTERVAL_S),
            "min_persons": DEFAULT_MIN_PERSONS,
        }
        fields = defaults | super().to_fields()
        if "experiment" in fields:
            return fields
        for name, stored in (("flag", "flag_id"), ("metric", "metric")):
            if stored not in fields:
                raise Invalid("This field is required.", attr=name, code="required")
        return fields


def _check_may_query(call: ProjectCall, documents: Sequence[Any]) -> None:
    """An expression can read all that a query can, and the evidence shows sums of it."""
    if b"hogql" in jsonio.encode(documents).lower():
        check_scope(call.caller, QUERY_SCOPE, call.project)


# Who starts or resumes a bandit is its author from then on.
_BEGINNING = (transitions.start, transitions.resume)


class BanditEndpoints:
    tag = "Bandits"

    def __init__(
        self, activity: ActivityStore, bandits: Bandits, requester: ChangeRequester
    ) -> None:
        self._activity = activity
        self._bandits = bandits
        self._requester = requester

    @endpoint(
        "GET",
        *project_paths("bandits/"),
        access=READ,
        response=Page[BanditItem],
        query=PAGE_PARAMETERS + LIST_PARAMETERS,
    )
    async def list_bandits(self, call: ProjectCall) -> Response:
        """List the bandits, newest first."""
        found, count = await self._bandits.list_bandits(call.project, _parse_filter(call))
        return JsonResponse(call.page(count, await self._render_all(call, found)))

    @endpoint(
        "POST",
        *project_paths("bandits/"),
        access=WRITE,
        response=BanditItem,
        status=201,
        body=NewBandit,
    )
    async def create_bandit(self, call: ProjectCall) -> Response:
        """Create a bandit, as a draft. Nothing changes before it is started. HogQL in its filters
        also needs the scope `query:read`, and an experiment `experiment:read`."""
        body = await call.body(NewBandit)
        fields = body.to_fields()
        if (id := fields.pop("experiment", None)) is not None:
            check_scope(call.caller, EXPERIMENT_SCOPE, call.project)
            fields = fields | await self._bandits.read_experiment(call.project, ExperimentId(id))
        _check_may_query(call, [fields["metric"], fields["exposure_criteria"]])
        made = await self._bandits.create(call.project, fields, _read_author(call), call.now)
        return await self._respond(call, made, status=201)

    @endpoint(
        "GET",
        *project_paths("bandits/{bandit_id}/"),
        access=READ,
        response=BanditItem,
    )
    async def retrieve_bandit(self, call: ProjectCall) -> Response:
        """Retrieve a bandit with its latest evidence."""
        return await self._respond(call, await self._bandits.find(call.project, _parse_id(call)))

    @endpoint(
        "PATCH",
        *project_paths("bandits/{bandit_id}/"),
        access=WRITE,
        response=BanditItem,
        body=BanditBody,
    )
    async def change_bandit(self, call: ProjectCall) -> Response:
        """Change a draft."""
        id = _parse_id(call)
        await self._bandits.find(call.project, id)
        body = await call.body(BanditBody)
        fields = body.to_fields()
        _check_may_query(call, [fields.get("metric"), fields.get("exposure_criteria")])
        changed = await self._bandits.change(call.project, id, fields, _read_author(call), call.now)
        return await self._respond(call, changed)

    @endpoint("DELETE", *project_paths("bandits/{bandit_id}/"), access=WRITE, status=204)
    async def delete_bandit(self, call: ProjectCall) -> Response:
        """Delete a bandit that is not running or paused, with its history. The flag stays as it
        is."""
        await self._bandits.delete(call.project, _parse_id(call), call.actor, call.now)
        return no_content()

    @endpoint(
        "POST",
        *project_paths("bandits/{bandit_id}/start/"),
        access=WRITE,
        response=BanditItem,
    )
    async def start_bandit(self, call: ProjectCall) -> Response:
        """Start a draft. If policies require approvals for changes of the flag, a change request
        for the start is created, and the last approval starts the bandit."""
        return await self._make(call, transitions.start)

    @endpoint(
        "POST",
        *project_paths("bandits/{bandit_id}/pause/"),
        access=WRITE,
        response=BanditItem,
    )
    async def pause_bandit(self, call: ProjectCall) -> Response:
        """Pause a running bandit. The flag keeps its split."""
        return await self._make(call, transitions.pause)

    @endpoint(
        "POST",
        *project_paths("bandits/{bandit_id}/resume/"),
        access=WRITE,
        response=BanditItem,
    )
    async def resume_bandit(self, call: ProjectCall) -> Response:
        """Resume a paused bandit. What was learned still counts, unless the flag has other variants
        now."""
        return await self._make(call, transitions.resume)

    @endpoint(
        "POST",
        *project_paths("bandits/{bandit_id}/stop/"),
        access=WRITE,
        response=BanditItem,
    )
    async def stop_bandit(self, call: ProjectCall) -> Response:
        """End a running or paused bandit. The flag keeps its split."""
        return await self._make(call, transitions.stop)

    @endpoint(
        "GET",
        *project_paths("bandits/{bandit_id}/allocations/"),
        access=READ,
        response=Page[AllocationItem],
        query=PAGE_PARAMETERS,
    )
    async def list_bandit_allocations(self, call: ProjectCall) -> Response:
        """List what a bandit did and why, newest first."""
        bandit = await self._bandits.find(call.project, _parse_id(call))
        window = call.window
        found, count = await self._bandits.list_allocations(bandit, window.limit, window.offset)
        return JsonResponse(call.page(count, [_render_allocation(each) for each in found]))

    @activity_endpoint("bandits/{bandit_id}/activity/", READ)
    async def list_bandit_activity(self, call: ProjectCall) -> Response:
        """List the changes made to a bandit, newest first."""
        found = await self._bandits.find(call.project, _parse_id(call))
        return await respond_with_activity(call, self._activity, SCOPE, str(found.id))

    async def _make(self, call: ProjectCall, step: MakeBanditTransition) -> Response:
        found = await self._bandits.find(call.project, _parse_id(call))
        if step in _BEGINNING:
            _check_may_query(call, [found.metric, found.exposure_criteria])
        try:
            made = await self._bandits.make(
                call.project, found.id, step, _read_author(call), call.now
            )
        except ApprovalRequired as error:
            refused = error
        else:
            return await self._respond(call, made)
        flag = await self._bandits.find_flag(call.project, found)
        request, is_new = await self._requester.create(call, propose_start(found, flag, refused))
        raise build_refusal(call, request, refused, is_new)

    async def _respond(self, call: ProjectCall, bandit: Bandit, status: int = 200) -> Response:
        [item] = await self._render_all(call, [bandit])
        return JsonResponse(item, status_code=status)

    async def _render_all(self, call: ProjectCall, bandits: Sequence[Bandit]) -> list[BanditItem]:
        keys = await self._bandits.find_flag_keys(call.project, bandits)
        return [_render(call, each, keys.get(each.flag_id, "")) for each in bandits]


def _render(call: ProjectCall, bandit: Bandit, flag_key: str) -> BanditItem:
    return BanditItem(
        id=bandit.id,
        flag=bandit.flag_id,
        flag_key=flag_key,
        name=bandit.name,
        metric=bandit.metric,
        exposure_criteria=bandit.exposure_criteria,
        floor_percent=bandit.floor_percent,
        interval_seconds=int(bandit.interval.total_seconds()),
        min_persons=bandit.min_persons,
        state=bandit.state.value,
        reason=bandit.reason,
        split=bandit.split,
        learning_since=_format(bandit.learning_since),
        started_at=_format(bandit.started_at),
        ended_at=_format(bandit.ended_at),
        next_check_at=_format(bandit.next_check_at),
        last_checked_at=_format(bandit.last_checked_at),
        variants=[_render_variant(each) for each in bandit.variants_found],
        change_request_id=bandit.change_request_id,
        version=bandit.version,
        created_at=format_iso(bandit.created_at),
        created_by=render_user(call, describe_actor(bandit.author)),
        updated_at=format_iso(bandit.updated_at),
    )


def _render_allocation(allocation: Allocation) -> AllocationItem:
    return AllocationItem(
        kind=allocation.kind.value,
        created_at=format_iso(allocation.created_at),
        why=allocation.why,
        variants=[_render_variant(each) for each in allocation.variants],
    )


def _render_variant(found: Mapping[str, Any]) -> VariantEvidence:
    return msgspec.convert(found, VariantEvidence)


def _format(moment: datetime | None) -> str | None:
    return None if moment is None else format_iso(moment)


def _parse_id(call: ProjectCall) -> BanditId:
    text = call.path_param("bandit_id")
    number = parse_positive(text) if text.isdecimal() else None
    if number is None or number > INT64_MAX:
        raise NotFound
    return BanditId(number)


def _read_author(call: ProjectCall) -> GuideAuthor:
    return GuideAuthor(actor=call.actor, user_uuid=call.caller.user.uuid)


def _parse_filter(call: ProjectCall) -> BanditFilter:
    text, window = call.query_param("flag"), call.window
    flag_id = parse_positive(text)
    if text and flag_id is None:
        raise Invalid("Expected the id of a feature flag.", attr="flag")
    state = parse_choice(call.query_param("state"), "state", list(BanditState))
    return BanditFilter(
        search=parse_text(call.query_param("search"), "search").strip()[:SEARCH_MAX_CHARS],
        flag_id=None if flag_id is None else FlagId(min(flag_id, INT64_MAX)),
        state=BanditState(state) if state else None,
        limit=window.limit,
        offset=window.offset,
    )
