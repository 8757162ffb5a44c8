"""Rollout plans, their history, and their transitions together with the change of the flag."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, select, update

from hedgerow.flags.model import Flag, FlagDefinitions, FlagId
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import ProjectId
from hedgerow.rollouts.model import (
    MAX_EVALUATIONS,
    Evaluation,
    EvaluationKind,
    HarmAction,
    NoDataRule,
    PlanId,
    PlanState,
    RolloutPlan,
)
from hedgerow.rollouts.parse import parse_metrics, parse_steps, render_metric, render_step
from hedgerow.rollouts.store import (
    Decide,
    PlanCheck,
    PlanContext,
    PlanFilter,
    PlanWrite,
    RolloutPlanStore,
)
from hedgerow.storage.alerts.messages import list_destinations, queue_message
from hedgerow.storage.engine import generations
from hedgerow.storage.engine.database import Database
from hedgerow.storage.engine.paging import read_page
from hedgerow.storage.flags import owners
from hedgerow.storage.flags.approvals.approval_gate import WriteGate
from hedgerow.storage.flags.flags import SqlFlagStore, find_flag, flag_topic, store_flag
from hedgerow.storage.projects import activity
from hedgerow.storage.tables import flags
from hedgerow.storage.tables import rollout_evaluations as evaluations
from hedgerow.storage.tables import rollout_plans as table

# A look after which nothing changes gets into the history this often, or if a verdict changes.
HISTORY_INTERVAL = timedelta(minutes=1)
# No plan is claimed, or rests, for longer.
MAX_PAUSE = timedelta(minutes=10)
_ACTIVE = [state.value for state in PlanState if state.is_active]


class SqlRolloutPlanStore(RolloutPlanStore):
    def __init__(self, database: Database, flags: SqlFlagStore) -> None:
        self._database = database
        self._flags = flags

    async def plans(
        self, project_id: ProjectId, wanted: PlanFilter
    ) -> tuple[Sequence[RolloutPlan], int]:
        own = table.c.project_id == project_id
        if wanted.flag_id is not None:
            own &= table.c.flag_id == wanted.flag_id
        if wanted.state is not None:
            own &= table.c.state == wanted.state.value
        if wanted.search:
            text = wanted.search.lower()
            has_key = func.lower(flags.c.key).contains(text, autoescape=True)
            named = select(flags.c.id).where((flags.c.project_id == project_id) & has_key)
            has_name = func.lower(table.c.name).contains(text, autoescape=True)
            own &= has_name | table.c.flag_id.in_(named)
        page = select(table).where(own).order_by(table.c.id.desc())

        def read(connection: Connection) -> tuple[Sequence[RolloutPlan], int]:
            rows, total = read_page(connection, page, limit=wanted.limit, offset=wanted.offset)
            return [_decode(row) for row in rows], total

        return await self._database.read(read)

    async def plan(self, project_id: ProjectId, id: PlanId) -> RolloutPlan | None:
        return await self._database.read(lambda connection: _find(connection, project_id, id))

    async def flag(self, project_id: ProjectId, id: FlagId) -> Flag | None:
        return await self._flags.flag(project_id, id)

    async def flag_keys(
        self, project_id: ProjectId, ids: Collection[FlagId]
    ) -> Mapping[FlagId, str]:
        own = (flags.c.project_id == project_id) & flags.c.id.in_(ids)
        keys = select(flags.c.id, flags.c.key).where(own)
        return await self._database.read(
            lambda connection: {row.id: row.key for row in connection.execute(keys)}
        )

    async def evaluations(
        self, plan: RolloutPlan, limit: int, offset: int
    ) -> tuple[Sequence[Evaluation], int]:
        own = select(evaluations).where(evaluations.c.plan_id == plan.id)
        page = own.order_by(evaluations.c.id.desc())

        def read(connection: Connection) -> tuple[Sequence[Evaluation], int]:
            rows, total = read_page(connection, page, limit=limit, offset=offset)
            return [_decode_evaluation(row) for row in rows], total

        return await self._database.read(read)

    async def create(
        self, project_id: ProjectId, decide: Callable[[PlanContext], PlanWrite], now: datetime
    ) -> RolloutPlan:
        def run(connection: Connection) -> RolloutPlan:
            definitions = self._flags.lock_definitions(connection, project_id)
            write = decide(_read_context(connection, project_id, definitions))
            return _store(connection, write, now)

        return await self._database.write(run)

    async def change(
        self, project_id: ProjectId, id: PlanId, decide: Decide, now: datetime
    ) -> RolloutPlan | None:
        def run(connection: Connection, gate: WriteGate) -> RolloutPlan | None:
            # Another process waits here until this one has stored the outcome.
            definitions = self._flags.lock_definitions(connection, project_id)
            plan = _find(connection, project_id, id)
            if plan is None:
                return None
            write = decide(_read_context(connection, project_id, definitions), plan)
            if write is None:
                return None
            if write.flag is not None:
                _, is_audited = store_flag(connection, write.flag, now, gate)
                if is_audited:
                    generations.advance(connection, flag_topic(project_id))
            return _store(connection, write, now)

        return await self._flags.write_gated(run)

    async def claim_due(self, now: datetime, until: datetime, limit: int) -> Sequence[RolloutPlan]:
        # What is too far ahead was written before the clock was set back.
        ahead = now + MAX_PAUSE
        is_free = (
            table.c.claimed_until.is_(None)
            | (table.c.claimed_until <= now)
            | (table.c.claimed_until > ahead)
        )
        is_time = (table.c.next_check_at <= now) | (table.c.next_check_at > ahead)
        due = is_time & (table.c.state == PlanState.RUNNING.value) & is_free
        first = select(table.c.id).where(due).order_by(table.c.next_check_at).limit(limit)
        # A process that waited for another's claim finds that the rows are no longer free.
        claim = (
            update(table)
            .where(due & table.c.id.in_(first.scalar_subquery()))
            .values(claimed_until=until)
            .returning(table)
        )
        if not await self._database.read(lambda connection: connection.execute(first).first()):
            return ()
        return await self._database.write(
            lambda connection: [_decode(row) for row in connection.execute(claim)]
        )

    async def save_check(self, plan: RolloutPlan, check: PlanCheck) -> None:
        evaluation = check.evaluation
        values = {
            "reason": check.reason,
            "metrics_found": list(evaluation.metrics),
            "last_checked_at": evaluation.created_at,
            "next_check_at": check.next_check_at,
            "claimed_until": None,
        }
        own = (table.c.id == plan.id) & (table.c.version == plan.version)

        def run(connection: Connection) -> None:
            if not connection.execute(update(table).where(own).values(values)).rowcount:
                return
            if _is_recorded(connection, plan, evaluation):
                _add_evaluation(connection, plan.id, evaluation)

        await self._database.write(run)


def _is_recorded(connection: Connection, plan: RolloutPlan, evaluation: Evaluation) -> bool:
    before = [each["verdict"] for each in plan.metrics_found]
    if before != [each["verdict"] for each in evaluation.metrics]:
        return True
    last = select(func.max(evaluations.c.id)).where(evaluations.c.plan_id == plan.id)
    moment = select(evaluations.c.created_at).where(evaluations.c.id == last.scalar_subquery())
    at: datetime | None = connection.execute(moment).scalar()
    return at is None or evaluation.created_at - at >= HISTORY_INTERVAL


def _read_context(
    connection: Connection, project_id: ProjectId, definitions: FlagDefinitions
) -> PlanContext:
    own = table.c.project_id == project_id
    active = select(table.c.id, table.c.flag_id).where(own & table.c.state.in_(_ACTIVE))
    count = select(func.count()).select_from(table).where(own)
    return PlanContext(
        definitions=definitions,
        find_flag=lambda id: find_flag(connection, project_id, id),
        active={row.id: row.flag_id for row in connection.execute(active)},
        count=connection.execute(count).scalar_one(),
        destinations=list_destinations(connection, project_id),
        find_bandit=lambda id: owners.find_active_bandit(connection, id),
    )


def _store(connection: Connection, write: PlanWrite, now: datetime) -> RolloutPlan:
    plan = write.plan
    if write.is_deleted:
        connection.execute(delete(evaluations).where(evaluations.c.plan_id == plan.id))
        connection.execute(delete(table).where(table.c.id == plan.id))
    else:
        plan = _write_row(connection, plan)
    if write.evaluation is not None:
        _add_evaluation(connection, plan.id, write.evaluation)
    if (entry := write.build_entry(plan)) is not None:
        activity.record(connection, entry, now)
    queue_message(connection, write.message, plan.destinations, now)
    return plan


def _write_row(connection: Connection, plan: RolloutPlan) -> RolloutPlan:
    values = _to_values(plan)
    if plan.id:
        connection.execute(update(table).where(table.c.id == plan.id).values(values))
        return plan
    id = connection.execute(insert(table).returning(table.c.id), values).scalar_one()
    return replace(plan, id=PlanId(id))


def _add_evaluation(connection: Connection, id: PlanId, evaluation: Evaluation) -> None:
    """Add an entry to the history and delete the oldest ones."""
    values = {
        "plan_id": id,
        "kind": evaluation.kind.value,
        "created_at": evaluation.created_at,
        "step_index": evaluation.step_index,
        "percentage": evaluation.percentage,
        "why": evaluation.why,
        "metrics": list(evaluation.metrics),
    }
    connection.execute(insert(evaluations), values)
    own: ColumnElement[bool] = evaluations.c.plan_id == id
    newest = select(evaluations.c.id).where(own).order_by(evaluations.c.id.desc())
    last = newest.offset(MAX_EVALUATIONS).limit(1).scalar_subquery()
    connection.execute(delete(evaluations).where(own & (evaluations.c.id <= last)))


def _find(connection: Connection, project_id: ProjectId, id: PlanId) -> RolloutPlan | None:
    own = (table.c.project_id == project_id) & (table.c.id == id)
    row = connection.execute(select(table).where(own)).one_or_none()
    return None if row is None else _decode(row)


def _decode(row: Row[Any]) -> RolloutPlan:
    values = dict(row._mapping)
    del values["claimed_until"]
    window_s = values.pop("window_s")
    return RolloutPlan(
        **values
        | {
            "steps": parse_steps(row.steps),
            "metrics": parse_metrics(row.metrics),
            "window": timedelta(seconds=window_s),
            "on_harm": HarmAction(row.on_harm),
            "on_no_data": NoDataRule(row.on_no_data),
            "state": PlanState(row.state),
            "author": Actor(**row.author),
        }
    )


def _to_values(plan: RolloutPlan) -> dict[str, Any]:
    values = asdict(plan) | {
        "steps": [render_step(each) for each in plan.steps],
        "metrics": [render_metric(each) for each in plan.metrics],
        "window_s": int(plan.window.total_seconds()),
        "on_harm": plan.on_harm.value,
        "on_no_data": plan.on_no_data.value,
        "state": plan.state.value,
        "destinations": list(plan.destinations),
        "metrics_found": list(plan.metrics_found),
        "claimed_until": None,
    }
    del values["id"], values["window"]
    return values


def _decode_evaluation(row: Row[Any]) -> Evaluation:
    return Evaluation(
        kind=EvaluationKind(row.kind),
        created_at=row.created_at,
        step_index=row.step_index,
        percentage=row.percentage,
        why=row.why,
        metrics=row.metrics,
    )
