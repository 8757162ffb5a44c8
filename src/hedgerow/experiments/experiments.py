"""What can be done with experiments: make, change, launch, end, archive, reset, delete, restore."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from hedgerow.errors import Invalid, NotFound
from hedgerow.experiments.criteria import read_criteria, read_stats
from hedgerow.experiments.metrics import read_metrics
from hedgerow.experiments.model import NEW, Experiment, ExperimentId, Kind, Status
from hedgerow.experiments.store import (
    ExperimentQuery,
    ExperimentStore,
    ExperimentWrite,
    Surroundings,
)
from hedgerow.experiments.trying import CRITERIA, METRICS, check_questions
from hedgerow.experiments.variants import (
    KEPT,
    KEPT_FLAG,
    PLACE,
    FlagEditor,
    are_alike,
    check_can_run,
    check_fits,
    filters_of,
    keeping_seen,
    read_variants,
    seen_of,
)
from hedgerow.flags.board import FlagCache
from hedgerow.flags.flags import person_of
from hedgerow.flags.model import Flag, FlagId
from hedgerow.flags.rules import variants_of
from hedgerow.flags.store import FlagWrite
from hedgerow.lib import jsonio
from hedgerow.lib.clock import iso
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.projects.activity import Actor, Entry, differences
from hedgerow.projects.model import Project
from hedgerow.projects.text import check_storable

SCOPE = "Experiment"
MAX_EXPERIMENTS = 5000
DOCUMENT_BYTES = 256 * 1024
# Documents that PostHog's clients write and read, and that change nothing here.
REST = ("filters", "secondary_metrics", "saved_metrics")
AUDITED = (
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

# The fields that somebody sent, by name, for those of Experiment that can be written. Only dates,
# the holdout and the conclusion can be None. `rest` has those of its parts that were sent.
Edit = Mapping[str, Any]
Found = tuple[Experiment, Flag]


@dataclass(frozen=True, slots=True)
class Need:
    """How an experiment must stand for a change, and what is said if it does not."""

    of: Set[Status]
    otherwise: str


class Experiments:
    def __init__(self, store: ExperimentStore, board: FlagCache) -> None:
        self._store = store
        self._board = board

    async def listing(
        self, project: Project, query: ExperimentQuery
    ) -> tuple[Sequence[Found], int]:
        return await self._store.experiments(project.id, query)

    async def find(self, project: Project, id: ExperimentId, *, deleted_too: bool = False) -> Found:
        found = await self._store.experiment(project.id, id)
        if found is None or (found[0].deleted and not deleted_too):
            raise NotFound
        return found

    async def by_flag(self, project: Project) -> Mapping[FlagId, Sequence[ExperimentId]]:
        """The experiments of each flag that has any."""
        return await self._store.by_flag(project.id)

    async def create(
        self, project: Project, flag_key: str, edit: Edit, actor: Actor, now: datetime
    ) -> Found:
        """With a flag of its own, or with one that is there."""
        await self._try(project, edit, now)

        def decide(around: Surroundings) -> ExperimentWrite:
            _check_room(around)
            made = _checked(_blank(project, actor, now), edit)
            there = next((f for f in around.definitions.flags if f.key == flag_key), None)
            editor = FlagEditor(definitions=around.definitions, actor=actor, now=now)
            if there is None:
                flag: FlagWrite | None = editor.new(
                    project, flag_key, made, edit.get("parameters") or {}
                )
            else:
                made = replace(made, flag_id=there.id)
                flag = _taken_over(there, made, edit, editor)
            seen = there if flag is None else flag.flag
            assert seen is not None  # without a flag that is there, one is made
            return ExperimentWrite(
                experiment=keeping_seen(made, seen),
                flag=flag,
                tell=lambda stored: _entry("created", None, stored, actor),
            )

        return await self._stored(project, decide, now)

    async def change(
        self,
        project: Project,
        id: ExperimentId,
        edit: Edit,
        actor: Actor,
        now: datetime,
        need: Need | None = None,
    ) -> Found:
        await self._try(project, edit, now)

        def decide(around: Surroundings) -> ExperimentWrite:
            before = around.experiment(id)
            if before is None or (before.deleted and edit.get("deleted") is not False):
                raise NotFound
            if need is not None and before.status not in need.of:
                raise Invalid(need.otherwise)
            if before.deleted:
                _check_room(around)
            flag = around.flag(before.flag_id)
            assert flag is not None  # rows of flags are never removed
            after = _checked(before, edit)
            editor = FlagEditor(definitions=around.definitions, actor=actor, now=now)
            change = _flag_change(before, after, flag, edit, editor)
            seen = flag if change is None else change.flag
            if (attr := _launching(before, after)) is not None:
                check_can_run(after, seen, attr)
            after = keeping_seen(after, seen)
            if after == before:
                return ExperimentWrite(experiment=before, flag=change, tell=lambda _: None)
            after = replace(after, updated_at=now)
            verb = _verb(before, after)
            return ExperimentWrite(
                experiment=after,
                flag=change,
                tell=lambda _: _entry(verb, before, after, actor),
            )

        return await self._stored(project, decide, now)

    async def launch(
        self, project: Project, id: ExperimentId, actor: Actor, now: datetime
    ) -> Found:
        need = Need({Status.DRAFT}, "It has been launched already.")
        return await self.change(project, id, {"start_date": now}, actor, now, need)

    async def end(
        self, project: Project, id: ExperimentId, conclusion: Edit, actor: Actor, now: datetime
    ) -> Found:
        need = Need({Status.RUNNING}, "Only a running experiment can end.")
        return await self.change(project, id, {"end_date": now, **conclusion}, actor, now, need)

    async def archive(
        self, project: Project, id: ExperimentId, actor: Actor, now: datetime
    ) -> Found:
        return await self.change(project, id, {"archived": True}, actor, now)

    async def reset(self, project: Project, id: ExperimentId, actor: Actor, now: datetime) -> Found:
        """Back to a draft. The flag goes on as it is, and events stay; exposures count from the
        next launch on."""
        need = Need({Status.RUNNING, Status.STOPPED}, "It is a draft already.")
        return await self.change(project, id, {"start_date": None}, actor, now, need)

    async def delete(self, project: Project, id: ExperimentId, actor: Actor, now: datetime) -> None:
        """The flag stays."""
        await self.change(project, id, {"deleted": True}, actor, now)

    async def _try(self, project: Project, edit: Edit, now: datetime) -> None:
        asking = {name: edit[name] for name in (CRITERIA, *METRICS) if name in edit}
        _check_documents(asking)
        if asking:
            cohorts = (await self._board.refreshed(project)).definitions.cohorts
            await in_daemon_thread(partial(check_questions, asking, project, cohorts, now))

    async def _stored(
        self, project: Project, decide: Callable[[Surroundings], ExperimentWrite], now: datetime
    ) -> Found:
        found = await self._store.write_experiment(project.id, decide, now)
        await self._board.refreshed(project)
        return found


def _blank(project: Project, actor: Actor, now: datetime) -> Experiment:
    return Experiment(
        id=NEW,
        project_id=project.id,
        flag_id=FlagId(0),
        name="",
        description="",
        type=Kind.PRODUCT,
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
        created_by=person_of(actor),
        created_at=now,
        updated_at=now,
    )


def _check_room(around: Surroundings) -> None:
    if around.count >= MAX_EXPERIMENTS:
        raise Invalid(f"A project may have {MAX_EXPERIMENTS} experiments at most.")


def _checked(before: Experiment, edit: Edit) -> Experiment:
    """The experiment with these fields, as it may be stored, or Invalid."""
    fields = dict(edit)
    if "start_date" in fields and fields["start_date"] is None and before.start_date is not None:
        # A draft again: nothing is left of how it ended.
        ended = {"end_date": None, "archived": False, "conclusion": None, "conclusion_comment": ""}
        fields = ended | fields
    if "parameters" in fields:
        # What is sent goes to the flag.
        kept = {name: before.parameters.get(name) for name in (KEPT, KEPT_FLAG)}
        fields["parameters"] = {**fields["parameters"], **kept}
    if "rest" in fields:
        rest = {**before.rest, **fields["rest"]}
        fields["rest"] = {name: document for name, document in rest.items() if document}
    after = replace(before, **fields)
    _check_brought(fields, after)
    _check_dates(after)
    return after


def _check_brought(fields: Edit, after: Experiment) -> None:
    """Invalid for documents that somebody sent. Of those that are there already, also one that
    cannot be read must not keep an experiment from ending."""
    if "metrics" in fields:
        read_metrics(after.metrics, "metrics")
    if "metrics_secondary" in fields:
        read_metrics(after.metrics_secondary, "metrics_secondary")
    if "exposure_criteria" in fields:
        read_criteria(after.exposure_criteria, "")
    if "stats_config" in fields:
        read_stats(after.stats_config)
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
    if len(jsonio.encode(documents)) > DOCUMENT_BYTES:
        raise Invalid(f"An experiment may have {DOCUMENT_BYTES} bytes at most.", code="max_length")


def _check_dates(after: Experiment) -> None:
    if after.end_date is not None:
        if after.start_date is None:
            raise Invalid("It must be launched before it ends.", attr="end_date")
        if after.end_date <= after.start_date:
            raise Invalid("End date must be after start date", attr="end_date")
    if after.archived and after.status is not Status.STOPPED:
        raise Invalid("It must end before it is archived.", attr="archived")


def _taken_over(flag: Flag, made: Experiment, edit: Edit, editor: FlagEditor) -> FlagWrite | None:
    """A flag that is there, for a new experiment."""
    check_fits(flag)
    wanted = read_variants(edit.get("parameters") or {})
    if wanted is not None and not are_alike(wanted, variants_of(flag.filters)):
        detail = (
            "The flag is there already, with other variants: leave them out or choose a new key."
        )
        raise Invalid(detail, attr=PLACE)
    return editor.changed(
        flag,
        holdout=made.holdout or filters_of(flag).get("holdout"),
        switched_on=made.status is Status.RUNNING,
    )


def _flag_change(
    before: Experiment, after: Experiment, flag: Flag, edit: Edit, editor: FlagEditor
) -> FlagWrite | None:
    wanted = read_variants(edit.get("parameters") or {})
    seen = seen_of(before, flag).variants
    variants = None if wanted is None or are_alike(wanted, seen) else wanted
    if before.status is not Status.DRAFT and variants is not None:
        detail = "Variants cannot change once people have seen them: reset the experiment first."
        raise Invalid(detail, attr=PLACE)
    has_holdout = jsonio.same(before.holdout, after.holdout)
    if before.status is not Status.DRAFT and not has_holdout:
        detail = "The holdout cannot change once people have seen variants: reset it first."
        raise Invalid(detail, attr="holdout")
    is_launched = before.status is Status.DRAFT and after.status is Status.RUNNING
    if variants is None and has_holdout and not is_launched:
        return None
    return editor.changed(
        flag,
        variants=variants,
        holdout=filters_of(flag).get("holdout") if has_holdout else after.holdout,
        switched_on=is_launched,
    )


def _launching(before: Experiment, after: Experiment) -> str | None:
    """The field by which people begin to be counted, or begin again: its flag must then be fit."""
    if after.deleted or after.status is Status.DRAFT:
        return None
    if before.status is Status.DRAFT:
        return "start_date"
    if after.status is Status.STOPPED:
        return None
    if before.deleted:
        return "deleted"
    return "end_date" if before.status is Status.STOPPED else None


def _verb(before: Experiment, after: Experiment) -> str:
    if after.deleted != before.deleted:
        return "deleted" if after.deleted else "restored"
    if after.status is not before.status:
        return {Status.DRAFT: "reset", Status.RUNNING: "launched", Status.STOPPED: "ended"}[
            after.status
        ]
    return "updated"


def _entry(verb: str, before: Experiment | None, after: Experiment, actor: Actor) -> Entry:
    return Entry(
        scope=SCOPE,
        item_id=str(after.id),
        item_name=after.name,
        activity=verb,
        actor=actor,
        project_id=after.project_id,
        changes=differences(SCOPE, _audited(before), _audited(after)),
    )


def _audited(experiment: Experiment | None) -> Mapping[str, Any]:
    if experiment is None:
        return {}
    return {name: _plain(getattr(experiment, name)) for name in AUDITED}


def _plain(value: Any) -> Any:
    return iso(value) if isinstance(value, datetime) else value
