"""Which rows belong to a project, table by table, and their deletion in small steps.

Every table is in `OWNED` or in `KEPT`: a test fails for a new table that is in neither.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, delete, func, select, tuple_, update

from hedgerow.projects.model import ProjectId
from hedgerow.storage import tables
from hedgerow.storage.tables import ingestion, metadata

Condition = Callable[[ProjectId], ColumnElement[bool]]

# Changes of these tables add rows to the replication queue, by database triggers.
_REPLICATED = (tables.persons, tables.person_distinct_ids, tables.groups, tables.cohort_people)
# The limits of a project in `rate_usage`.
_RATE_LIMITS = ("evaluation", "capture", "events", "sdk project")


def _by_project(table: Table) -> Condition:
    return lambda id: table.c.project_id == id


def _by_parent(column: Any, parent: Table) -> Condition:
    return lambda id: column.in_(select(parent.c.id).where(parent.c.project_id == id))


def _by_record(table: Table) -> Condition:
    return _by_parent(table.c.record_id, tables.pipeline_records)


_CONDITIONS: dict[Table, Condition] = {
    table: _by_project(table)
    for table in (
        tables.project_tokens,
        tables.project_secrets,
        tables.project_members,
        tables.environments,
        tables.activity,
        tables.pipeline_records,
        tables.delivery_events,
        tables.idempotency_keys,
        tables.flags,
        tables.scheduled_changes,
        tables.rollout_plans,
        tables.bandits,
        tables.code_references,
        tables.stale_flags,
        tables.approval_policies,
        tables.change_requests,
        tables.unapproved_changes,
        tables.early_access_features,
        tables.surveys,
        tables.actions,
        tables.experiments,
        tables.experiment_holdouts,
        tables.cohorts,
        tables.behaviors,
        tables.behavior_times,
        tables.persons,
        tables.person_distinct_ids,
        tables.group_types,
        tables.groups,
        tables.mirror_queue,
        tables.flag_calls,
        tables.alerts,
        tables.subscriptions,
        tables.saved_insights,
        tables.dashboards,
        tables.dashboard_tiles,
        tables.annotations,
        tables.shared_links,
        tables.insight_results,
        tables.event_definitions,
        tables.property_definitions,
        tables.event_properties,
        ingestion.inbox,
        ingestion.set_aside_events,
        ingestion.ingestion_warnings,
        ingestion.cookieless_visitors,
        ingestion.deletions,
    )
}
# By record, even if they have a column for the project: that one has no index.
_CONDITIONS |= {
    table: _by_record(table)
    for table in (
        tables.pipeline_jobs,
        tables.deliveries,
        tables.delivery_batches,
        tables.delivery_leases,
        tables.destination_states,
        tables.delivery_counts,
        tables.transformation_counts,
        tables.delivery_logs,
        tables.delivered_events,
        tables.import_states,
        tables.imported_files,
    )
}
_CONDITIONS |= {
    tables.change_request_votes: _by_parent(
        tables.change_request_votes.c.request_id, tables.change_requests
    ),
    tables.change_request_comments: _by_parent(
        tables.change_request_comments.c.request_id, tables.change_requests
    ),
    tables.rollout_evaluations: _by_parent(
        tables.rollout_evaluations.c.plan_id, tables.rollout_plans
    ),
    tables.bandit_allocations: _by_parent(tables.bandit_allocations.c.bandit_id, tables.bandits),
    tables.alert_checks: _by_parent(tables.alert_checks.c.alert_id, tables.alerts),
    tables.chart_pictures: _by_parent(
        tables.chart_pictures.c.subscription_id, tables.subscriptions
    ),
    tables.cohort_people: _by_parent(tables.cohort_people.c.cohort_id, tables.cohorts),
    tables.flag_hash_keys: _by_parent(tables.flag_hash_keys.c.person_id, tables.persons),
    ingestion.unprocessed_ids: _by_parent(ingestion.unprocessed_ids.c.inbox_id, ingestion.inbox),
    ingestion.rate_usage: lambda id: ingestion.rate_usage.c.bucket.in_(
        [f"{limit} {id}" for limit in _RATE_LIMITS]
    ),
}

# They refer to others without a foreign key.
_UNSORTED = (tables.delivery_leases, ingestion.unprocessed_ids)
# Rows that refer to others come before those.
OWNED: Mapping[Table, Condition] = {
    table: _CONDITIONS[table]
    for table in (*_UNSORTED, *reversed(metadata.sorted_tables))
    if table in _CONDITIONS
}

KEPT: Mapping[Table, str] = {
    tables.organizations: "belongs to the installation",
    tables.users: "belongs to the installation",
    tables.sessions: "of people",
    tables.recovery_codes: "of people",
    tables.password_links: "of people",
    tables.login_attempts: "of people",
    tables.user_identities: "of people",
    tables.outgoing_mail: "to people, sent within a day or dropped",
    tables.roles: "belongs to the installation",
    tables.invites: "a role in a deleted project is ignored",
    tables.products: "belongs to the installation",
    tables.components: "belongs to the installation",
    tables.sealing_check: "belongs to the installation",
    tables.projects: "its row keeps the id from being used again",
    tables.personal_keys: "the deletion itself takes the project off the keys",
    tables.generations: "numbers only, which other processes compare",
    tables.notifications: "sent to the operator within a day, or dropped",
    ingestion.ready_events: "the processor drops the events of deleted projects",
    ingestion.unrouted_events: "the processor drops the events of deleted projects",
    tables.definition_marks: "of processes",
    ingestion.inbox_leases: "of processes",
    ingestion.inbox_workers: "of processes",
    ingestion.inbox_positions: "of all projects; the processor drops the events of deleted ones",
    ingestion.task_claims: "of processes",
    ingestion.cookieless_salts: "of all projects, deleted after their day",
    ingestion.project_deletions: "the report of the deletion",
}


def delete_batch(connection: Connection, table: Table, project_id: ProjectId, limit: int) -> int:
    """Delete at most `limit` rows of a project from a table of `OWNED`, and return how many."""
    if table is tables.mirror_queue:
        return _delete_queued(connection, project_id, limit=limit)
    newest = _find_newest_queued(connection) if table in _REPLICATED else 0
    count = _delete_some(connection, table, OWNED[table](project_id), limit)
    if table in _REPLICATED and count:
        # These deletions are not replicated: the replicas are deleted as a whole.
        _delete_queued(connection, project_id, after=newest)
    return count


def _delete_some(
    connection: Connection, table: Table, condition: ColumnElement[bool], limit: int | None
) -> int:
    key = tuple(table.primary_key.columns)
    some = select(*key).where(condition).limit(limit)
    return connection.execute(delete(table).where(tuple_(*key).in_(some))).rowcount


def _find_newest_queued(connection: Connection) -> int:
    return connection.execute(select(func.max(tables.mirror_queue.c.id))).scalar() or 0


def _delete_queued(
    connection: Connection, project_id: ProjectId, *, after: int = 0, limit: int | None = None
) -> int:
    """The newest row of the queue stays as a mark, without content: ids must not start again."""
    queue = tables.mirror_queue
    own = (queue.c.project_id == project_id) & (queue.c.id > after)
    newest = _find_newest_queued(connection)
    count = _delete_some(connection, queue, own & (queue.c.id < newest), limit)
    mark = {"kind": "mark", "project_id": 0, "number": 0, "name": "", "version": None}
    marked = update(queue).where(own & (queue.c.id == newest)).values(mark)
    return count + connection.execute(marked).rowcount
