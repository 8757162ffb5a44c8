"""Operations on experiments: create, change, launch, end, archive, reset, delete, restore."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from hedgerow.errors import Invalid, NotFound
from hedgerow.events.actions.store import ActionStore
from hedgerow.experiments.criteria import parse_criteria, parse_stats
from hedgerow.experiments.known_fields import check_document_fields
from hedgerow.experiments.metrics import parse_metrics
from hedgerow.experiments.model import (
    UNSAVED_ID,
    Experiment,
    ExperimentId,
    ExperimentStatus,
    ExperimentType,
)
from hedgerow.experiments.store import (
    ExperimentQuery,
    ExperimentStore,
    ExperimentWrite,
    ExperimentWriteContext,
)
from hedgerow.experiments.validate import CRITERIA, METRICS, validate_queries
from hedgerow.experiments.variants import (
    COUNTED_FLAG_PARAMETER,
    VARIANTS_ATTR,
    VARIANTS_PARAMETER,
    FlagEditor,
    check_can_run,
    check_flag_usable,
    freeze_counted_flag,
    get_counted_flag,
    get_filters,
    has_same_split,
    parse_variants,
)
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.flags import describe_actor
from hedgerow.flags.model import Flag, FlagId
from hedgerow.flags.store import FlagWrite
from hedgerow.flags.validate import get_variants
from hedgerow.lib import jsonio
from hedgerow.lib.clock import format_iso
from hedgerow.lib.threads import run_in_thread
from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields
from hedgerow.projects.model import Project
from hedgerow.projects.validation import check_storable

SCOPE = "Experiment"
MAX_EXPERIMENTS = 5000
MAX_DOCUMENT_BYTES = 256 * 1024
# Documents that PostHog clients write and read, without effect in Hedgerow.
UNUSED_DOCUMENTS = ("filters", "secondary_metrics", "saved_metrics")
AUDITED_FIELDS = (
    "name",
    "description",
    "type",
    "start_date",
    "end_date",
    "archived",
    "deleted",
    "parameters",
    "metrics",
    "metrics_secondary",
    "exposure_criteria",
    "stats_config",
    "holdout",
    "rest",
    "conclusion",
    "conclusion_comment",
)

# The writable fields of Experiment that the request contains, by name. Only dates, the holdout and
# the conclusion can be None. `rest` contains the parts that were sent.
ExperimentEdit = Mapping[str, Any]
ExperimentWithFlag = tuple[Experiment, Flag]


@dataclass(frozen=True, slots=True)
class StatusRequirement:
    """The statuses that an operation requires, and the message for other statuses."""

    allowed: Set[ExperimentStatus]
    message: str


class Experiments:
    def __init__(self, store: ExperimentStore, flags: FlagCache, actions: ActionStore) -> None:
        self._store = store
        self._flags = flags
        self._actions = actions

    async def list_experiments(
        self, project: Project, query: ExperimentQuery
    ) -> tuple[Sequence[ExperimentWithFlag], int]:
        return await self._store.experiments(project.id, query)

    async def find(
        self, project: Project, id: ExperimentId, *, deleted_too: bool = False
    ) -> ExperimentWithFlag:
        found = await self._store.experiment(project.id, id)
        if found is None or (found[0].deleted and not deleted_too):
            raise NotFound
        return found

    async def list_ids_by_flag(self, project: Project) -> Mapping[FlagId, Sequence[ExperimentId]]:
        """Return the ids of the experiments of each flag that has any."""
        return await self._store.list_ids_by_flag(project.id)

    async def create(
        self, project: Project, flag_key: str, edit: ExperimentEdit, actor: Actor, now: datetime
    ) -> ExperimentWithFlag:
        """Create an experiment with a new flag, or with an existing one."""
        await self._validate(project, edit, now)

        def decide(context: ExperimentWriteContext) -> ExperimentWrite:
            editor = FlagEditor(definitions=context.definitions, actor=actor, now=now)
            return build_new_experiment(project, context, flag_key, edit, editor)

        return await self._store_change(project, decide, now)

    async def change(
        self,
        project: Project,
        id: ExperimentId,
        edit: ExperimentEdit,
        actor: Actor,
        now: datetime,
        requirement: StatusRequirement | None = None,
    ) -> ExperimentWithFlag:
        await self._validate(project, edit, now)

        def decide(context: ExperimentWriteContext) -> ExperimentWrite:
            before = context.experiment(id)
            if before is None or (before.deleted and edit.get("deleted") is not False):
                raise NotFound
            if requirement is not None and before.status not in requirement.allowed:
                raise Invalid(requirement.message)
            if before.deleted:
                _check_quota(context)
            flag = context.flag(before.flag_id)
            assert flag is not None  # rows of flags are never removed
            after = _apply_edit(before, edit)
            editor = FlagEditor(definitions=context.definitions, actor=actor, now=now)
            change = _flag_change(before, after, flag, edit, editor)
            counted = flag if change is None else change.flag
            if (attr := _find_launch_field(before, after)) is not None:
                check_can_run(after, counted, attr)
            after = freeze_counted_flag(after, counted)
            if after == before:
                return ExperimentWrite(experiment=before, flag=change, build_entry=lambda _: None)
            after = replace(after, updated_at=now)
            activity = _name_activity(before, after)
            return ExperimentWrite(
                experiment=after,
                flag=change,
                build_entry=lambda _: _entry(activity, before, after, actor),
            )

        return await self._store_change(project, decide, now)

    async def launch(
        self, project: Project, id: ExperimentId, actor: Actor, now: datetime
    ) -> ExperimentWithFlag:
        requirement = StatusRequirement(
            {ExperimentStatus.DRAFT}, "The experiment has already been launched."
        )
        return await self.change(project, id, {"start_date": now}, actor, now, requirement)

    async def end(
        self,
        project: Project,
        id: ExperimentId,
        conclusion: ExperimentEdit,
        actor: Actor,
        now: datetime,
    ) -> ExperimentWithFlag:
        requirement = StatusRequirement(
            {ExperimentStatus.RUNNING}, "Only a running experiment can end."
        )
        return await self.change(
            project, id, {"end_date": now, **conclusion}, actor, now, requirement
        )

    async def archive(
        self, project: Project, id: ExperimentId, actor: Actor, now: datetime
    ) -> ExperimentWithFlag:
        return await self.change(project, id, {"archived": True}, actor, now)

    async def reset(
        self, project: Project, id: ExperimentId, actor: Actor, now: datetime
    ) -> ExperimentWithFlag:
        """Return the experiment to draft. The flag and all events stay; exposures count from the
        next launch."""
        requirement = StatusRequirement(
            {ExperimentStatus.RUNNING, ExperimentStatus.STOPPED},
            "The experiment is already a draft.",
        )
        return await self.change(project, id, {"start_date": None}, actor, now, requirement)

    async def delete(self, project: Project, id: ExperimentId, actor: Actor, now: datetime) -> None:
        """Delete the experiment. Its flag stays."""
        await self.change(project, id, {"deleted": True}, actor, now)

    async def _validate(self, project: Project, edit: ExperimentEdit, now: datetime) -> None:
        check_document_fields(edit)
        documents = {name: edit[name] for name in (CRITERIA, *METRICS) if name in edit}
        _check_documents(documents)
        if documents:
            cohorts = (await self._flags.refresh(project)).definitions.cohorts
            actions = await self._actions.actions(project.id)
            await run_in_thread(
                partial(validate_queries, documents, project, cohorts, actions, now)
            )

    async def _store_change(
        self,
        project: Project,
        decide: Callable[[ExperimentWriteContext], ExperimentWrite],
        now: datetime,
    ) -> ExperimentWithFlag:
        found = await self._store.write_experiment(project.id, decide, now)
        await self._flags.refresh(project)
        return found


def build_new_experiment(
    project: Project,
    context: ExperimentWriteContext,
    flag_key: str,
    edit: ExperimentEdit,
    editor: FlagEditor,
) -> ExperimentWrite:
    """Return the experiment with its new or changed flag. Raises Invalid."""
    _check_quota(context)
    experiment = _apply_edit(_new_experiment(project, editor.actor, editor.now), edit)
    existing = next((f for f in context.definitions.flags if f.key == flag_key), None)
    if existing is None:
        flag: FlagWrite | None = editor.create(
            project, flag_key, experiment, edit.get("parameters") or {}
        )
    else:
        experiment = replace(experiment, flag_id=existing.id)
        flag = _adopt_flag(existing, experiment, edit, editor)
    counted = existing if flag is None else flag.flag
    assert counted is not None  # the flag exists or was just created
    return ExperimentWrite(
        experiment=freeze_counted_flag(experiment, counted),
        flag=flag,
        build_entry=lambda stored: _entry("created", None, stored, editor.actor),
    )


def _new_experiment(project: Project, actor: Actor, now: datetime) -> Experiment:
    return Experiment(
        id=UNSAVED_ID,
        project_id=project.id,
        flag_id=FlagId(0),
        name="",
        description="",
        type=ExperimentType.PRODUCT,
        start_date=None,
        end_date=None,
        archived=False,
        deleted=False,
        parameters={},
        metrics=[],
        metrics_secondary=[],
        exposure_criteria={},
        stats_config={},
        holdout=None,
        rest={},
        conclusion=None,
        conclusion_comment="",
        created_by=describe_actor(actor),
        created_at=now,
        updated_at=now,
    )


def _check_quota(context: ExperimentWriteContext) -> None:
    if context.count >= MAX_EXPERIMENTS:
        raise Invalid(f"A project can have at most {MAX_EXPERIMENTS} experiments.")


def _apply_edit(before: Experiment, edit: ExperimentEdit) -> Experiment:
    """Return the experiment with these fields. Raises Invalid."""
    fields = dict(edit)
    if "start_date" in fields and fields["start_date"] is None and before.start_date is not None:
        # Back to draft: clear how it ended.
        ended = {"end_date": None, "archived": False, "conclusion": None, "conclusion_comment": ""}
        fields = ended | fields
    if "parameters" in fields:
        # The sent variants go to the flag.
        stored = {
            name: before.parameters.get(name)
            for name in (VARIANTS_PARAMETER, COUNTED_FLAG_PARAMETER)
        }
        fields["parameters"] = {**fields["parameters"], **stored}
    if "rest" in fields:
        rest = {**before.rest, **fields["rest"]}
        fields["rest"] = {name: document for name, document in rest.items() if document}
    after = replace(before, **fields)
    _check_sent_documents(fields, after)
    _check_dates(after)
    return after


def _check_sent_documents(fields: ExperimentEdit, after: Experiment) -> None:
    """Raise Invalid for an invalid document in the request. A stored document that cannot be parsed
    does not prevent other changes, such as ending the experiment."""
    if "metrics" in fields:
        parse_metrics(after.metrics, "metrics")
    if "metrics_secondary" in fields:
        parse_metrics(after.metrics_secondary, "metrics_secondary")
    if "exposure_criteria" in fields:
        parse_criteria(after.exposure_criteria, "")
    if "stats_config" in fields:
        parse_stats(after.stats_config)
    if not fields.keys().isdisjoint((*_DOCUMENTS, "rest")):
        _check_documents({name: getattr(after, name) for name in _DOCUMENTS} | dict(after.rest))


_DOCUMENTS = (
    "parameters",
    "metrics",
    "metrics_secondary",
    "exposure_criteria",
    "stats_config",
    "holdout",
)


def _check_documents(documents: Mapping[str, Any]) -> None:
    for name, document in documents.items():
        check_storable(document, name)
    if len(jsonio.encode(documents)) > MAX_DOCUMENT_BYTES:
        raise Invalid(
            f"The documents of an experiment can have at most {MAX_DOCUMENT_BYTES} bytes.",
            code="max_length",
        )


def _check_dates(after: Experiment) -> None:
    if after.end_date is not None:
        if after.start_date is None:
            raise Invalid("The experiment must be launched before it ends.", attr="end_date")
        if after.end_date <= after.start_date:
            raise Invalid("End date must be after start date", attr="end_date")
    if after.archived and after.status is not ExperimentStatus.STOPPED:
        raise Invalid("The experiment must end before it is archived.", attr="archived")


def _adopt_flag(
    flag: Flag, experiment: Experiment, edit: ExperimentEdit, editor: FlagEditor
) -> FlagWrite | None:
    """Use an existing flag for a new experiment."""
    check_flag_usable(flag)
    variants_sent = parse_variants(edit.get("parameters") or {})
    if variants_sent is not None and not has_same_split(variants_sent, get_variants(flag.filters)):
        detail = (
            "The flag already exists with other variants. Omit the variants or choose another key."
        )
        raise Invalid(detail, attr=VARIANTS_ATTR)
    return editor.update(
        flag,
        holdout=experiment.holdout or get_filters(flag).get("holdout"),
        switched_on=experiment.status is ExperimentStatus.RUNNING,
    )


def _flag_change(
    before: Experiment, after: Experiment, flag: Flag, edit: ExperimentEdit, editor: FlagEditor
) -> FlagWrite | None:
    variants_sent = parse_variants(edit.get("parameters") or {})
    counted = get_counted_flag(before, flag).variants
    variants = (
        None if variants_sent is None or has_same_split(variants_sent, counted) else variants_sent
    )
    if before.status is not ExperimentStatus.DRAFT and variants is not None:
        detail = "The variants of a launched experiment cannot change. Reset the experiment first."
        raise Invalid(detail, attr=VARIANTS_ATTR)
    has_holdout = jsonio.is_equal(before.holdout, after.holdout)
    if before.status is not ExperimentStatus.DRAFT and not has_holdout:
        detail = "The holdout of a launched experiment cannot change. Reset the experiment first."
        raise Invalid(detail, attr="holdout")
    is_launched = (
        before.status is ExperimentStatus.DRAFT and after.status is ExperimentStatus.RUNNING
    )
    if variants is None and has_holdout and not is_launched:
        return None
    return editor.update(
        flag,
        variants=variants,
        holdout=get_filters(flag).get("holdout") if has_holdout else after.holdout,
        switched_on=is_launched,
    )


def _find_launch_field(before: Experiment, after: Experiment) -> str | None:
    """Return the field that starts or resumes exposure, after which the flag must be usable."""
    if after.deleted or after.status is ExperimentStatus.DRAFT:
        return None
    if before.status is ExperimentStatus.DRAFT:
        return "start_date"
    if after.status is ExperimentStatus.STOPPED:
        return None
    if before.deleted:
        return "deleted"
    return "end_date" if before.status is ExperimentStatus.STOPPED else None


def _name_activity(before: Experiment, after: Experiment) -> str:
    if after.deleted != before.deleted:
        return "deleted" if after.deleted else "restored"
    if after.status is not before.status:
        return {
            ExperimentStatus.DRAFT: "reset",
            ExperimentStatus.RUNNING: "launched",
            ExperimentStatus.STOPPED: "ended",
        }[after.status]
    return "updated"


def _entry(
    activity: str, before: Experiment | None, after: Experiment, actor: Actor
) -> ActivityEntry:
    return ActivityEntry(
        scope=SCOPE,
        item_id=str(after.id),
        item_name=after.name,
        activity=activity,
        actor=actor,
        project_id=after.project_id,
        changes=diff_fields(SCOPE, _audit_fields(before), _audit_fields(after)),
    )


def _audit_fields(experiment: Experiment | None) -> Mapping[str, Any]:
    if experiment is None:
        return {}
    return {name: _to_json_value(getattr(experiment, name)) for name in AUDITED_FIELDS}


def _to_json_value(value: Any) -> Any:
    return format_iso(value) if isinstance(value, datetime) else value
