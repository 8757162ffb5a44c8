"""Rollout plans, their history, and their transitions together with the change of the flag."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, func, select

from hedgerow.flags.model import FlagDefinitions
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
from hedgerow.storage.engine.database import Database
from hedgerow.storage.flags import owners
from hedgerow.storage.flags.approvals.approval_gate import WriteGate
from hedgerow.storage.flags.flags import SqlFlagStore, find_flag
from hedgerow.storage.flags.rollouts.guided_flags import (
    GuideTables,
    SqlGuideStore,
    write_guided_flag,
)
from hedgerow.storage.projects import activity
from hedgerow.storage.tables import rollout_evaluations as evaluations
from hedgerow.storage.tables import rollout_plans as table

# A look after which nothing changes gets into the history this often, or if a verdict changes.
HISTORY_INTERVAL = timedelta(minutes=1)
# No plan is claimed, or rests, for longer.
MAX_PAUSE = timedelta(minutes=10)


class SqlRolloutPlanStore(SqlGuideStore[RolloutPlan, Evaluation], RolloutPlanStore):
    def __init__(self, database: Database, flags: SqlFlagStore) -> None:
        super().__init__(database, flags, _TABLES)

    async def plans(
        self, project_id: ProjectId, wanted: PlanFilter
    ) -> tuple[Sequence[RolloutPlan], int]:
        return await self._list(project_id, wanted)

    async def plan(self, project_id: ProjectId, id: PlanId) -> RolloutPlan | None:
        return await self._find(project_id, id)

    async def evaluations(
        self, plan: RolloutPlan, limit: int, offset: int
    ) -> tuple[Sequence[Evaluation], int]:
        return await self._list_entries(plan.id, limit, offset)

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
            plan = _TABLES.find(connection, project_id, id)
            if plan is None:
                return None
            write = decide(_read_context(connection, project_id, definitions), plan)
            if write is None:
                return None
            write_guided_flag(connection, write.flag, now, gate)
            return _store(connection, write, now)

        return await self._flags.write_gated(run)

    async def save_check(self, plan: RolloutPlan, check: PlanCheck) -> None:
        evaluation = check.evaluation
        values = {
            "reason": check.reason,
            "metrics_found": list(evaluation.metrics),
            "last_checked_at": evaluation.created_at,
            "next_check_at": check.next_check_at,
        }

        def run(connection: Connection) -> None:
            is_saved = _TABLES.save_check(connection, plan, values)
            if is_saved and _is_recorded(connection, plan, evaluation):
                _TABLES.add_entry(connection, plan.id, evaluation)

        await self._database.write(run)


def _is_recorded(connection: Connection, plan: RolloutPlan, evaluation: Evaluation) -> bool:
    before = [each["verdict"] for each in plan.metrics_found]
    if before != [each["verdict"] for each in evaluation.metrics]:
        return True
    last = select(func.max(evaluations.c.id)).where(evaluations.c.plan_id == plan.id)
    moment = select(evaluations.c.created_at).where(evaluations.c.id == last.scalar_subquery())
    at: datetime | None = connection.execute(moment).scalar()
    # The last entry is ahead of the clock if it was set back.
    return at is None or abs(evaluation.created_at - at) >= HISTORY_INTERVAL


def _read_context(
    connection: Connection, project_id: ProjectId, definitions: FlagDefinitions
) -> PlanContext:
    return PlanContext(
        definitions=definitions,
        find_flag=lambda id: find_flag(connection, project_id, id),
        active=_TABLES.list_active(connection, project_id),
        count=_TABLES.count(connection, project_id),
        destinations=list_destinations(connection, project_id),
        find_bandit=lambda id: owners.find_active_bandit(connection, id),
    )


def _store(connection: Connection, write: PlanWrite, now: datetime) -> RolloutPlan:
    plan: RolloutPlan = _TABLES.store(
        connection, write.plan, write.evaluation, is_deleted=write.is_deleted
    )
    if (entry := write.build_entry(plan)) is not None:
        activity.record(connection, entry, now)
    queue_message(connection, write.message, plan.destinations, now)
    return plan


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
    }
    del values["window"]
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


def _encode_evaluation(evaluation: Evaluation) -> dict[str, Any]:
    return asdict(evaluation) | {
        "kind": evaluation.kind.value,
        "metrics": list(evaluation.metrics),
    }


_TABLES = GuideTables(
    table=table,
    history=evaluations,
    parent=evaluations.c.plan_id,
    max_entries=MAX_EVALUATIONS,
    max_pause=MAX_PAUSE,
    active_states=[state.value for state in PlanState if state.is_active],
    decode=_decode,
    encode=_to_values,
    decode_entry=_decode_evaluation,
    encode_entry=_encode_evaluation,
)
