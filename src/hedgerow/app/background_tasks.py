"""Every periodic background task of a process, with its interval."""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial

import structlog

from hedgerow.app.container import Container
from hedgerow.app.event_store import event_store_location
from hedgerow.app.event_store_requests import EventStoreActions, EventStoreRequests
from hedgerow.app.ingestion import Ingestion
from hedgerow.app.periodic_tasks import PeriodicTask
from hedgerow.app.state import state_location
from hedgerow.events.deletion import EventRetention
from hedgerow.events.project_erasure import SETTLING_TIME, ProjectErasure
from hedgerow.events.purge import DeletedDataPurge
from hedgerow.flags.schedules.runner import ScheduledChangeRunner
from hedgerow.flags.stale_flags import StaleFlagReports
from hedgerow.http.definitions import compile_patterns
from hedgerow.http.sdk.sdk_config import SdkConfigs
from hedgerow.lib.clock import ClockWatch, utc_now
from hedgerow.lib.threads import run_in_thread
from hedgerow.pipelines.deliveries.deliverer import (
    LEASE_RENEW_INTERVAL_S as DELIVERY_LEASE_INTERVAL_S,
)
from hedgerow.pipelines.deliveries.destination_health import DestinationHealthCache
from hedgerow.pipelines.jobs.runner import LEASE_RENEW_INTERVAL_S as JOB_LEASE_INTERVAL_S
from hedgerow.projects.call_limits import SharedLimits, share_usage
from hedgerow.projects.deletion import ProjectDeletion
from hedgerow.projects.directory import POLL_INTERVAL_S, SESSION_IDLE_TIME
from hedgerow.projects.model import Project
from hedgerow.storage.connect import build_change_listener
from hedgerow.storage.deletions import SqlDeletionLog
from hedgerow.storage.engine import generations
from hedgerow.storage.engine.free_pages import remove_deleted_rows
from hedgerow.storage.engine.task_claims import TaskClaims
from hedgerow.storage.engine.versions import VersionWatch
from hedgerow.storage.events.request_files import RequestFiles
from hedgerow.storage.flags.flags import TOPIC as FLAG_TOPIC
from hedgerow.storage.flags.scheduled_changes import SqlScheduledChangeStore
from hedgerow.storage.flags.stale_flags import SqlStaleFlagStore
from hedgerow.storage.persons.persons import SqlPersonStore
from hedgerow.storage.projects.deletions import SqlProjectDeletions
from hedgerow.storage.projects.rate_usage import SqlUsageExchange
from hedgerow.surveys.lifecycle import SurveyLifecycle

_log = structlog.get_logger("hedgerow.projects")

INGESTION_INTERVAL_S = 0.01
PROGRESS_INTERVAL_S = 0.5
READER_INTERVAL_S = 0.005
DELIVERY_INTERVAL_S = 0.5
JOB_INTERVAL_S = 0.5
CHECK_INTERVAL_S = 1.0
CLEANUP_INTERVAL_S = 2.0
BACKLOG_INTERVAL_S = 5.0
SCHEDULE_INTERVAL_S = 5.0
INBOX_LEASE_INTERVAL_S = 1.0
ERASURE_INTERVAL_S = 5.0
MOVE_INTERVAL_S = 10.0
VERSION_INTERVAL_S = 10.0
MINUTE_S = 60.0
HOUR_S = 3600.0
# Part of the interval of a task during which no other process runs it. Less than all of it, so that
# the process that ran it last is not late for its own claim.
CLAIM_SHARE = 0.9
# An outage of the event store or of a destination must not delay the recovery for long.
INGESTION_MAX_BACKOFF_S = 1.0
DELIVERY_MAX_BACKOFF_S = 5.0


def build_service_tasks(
    container: Container, sdk_configs: SdkConfigs, destination_health: DestinationHealthCache
) -> list[PeriodicTask]:
    """Tasks of every process that serves HTTP: keep its caches current."""
    ingestion = container.ingestion
    return [
        *_build_request_tasks(container),
        _poll("poll projects and keys", container.state.directory.refresh_and_save_usage),
        _poll("poll flags", container.flag_cache.refresh_changed),
        _poll("poll surveys", container.surveys.cache.refresh_changed),
        *_build_listening_tasks(container),
        _poll("poll frontend apps", sdk_configs.refresh),
        PeriodicTask(
            name="poll destination health",
            interval_s=CHECK_INTERVAL_S,
            run=destination_health.refresh,
            has_backoff=False,
        ),
        PeriodicTask(
            name="check free disk space",
            interval_s=CHECK_INTERVAL_S,
            run=ingestion.admission.refresh,
            has_backoff=False,
        ),
        *build_shared_tasks(container),
    ]


def _build_listening_tasks(container: Container) -> list[PeriodicTask]:
    """On PostgreSQL, learn of changes of other processes at once. Polling stays beside it. Flags
    are first, and nothing is read that has not changed: each statement delays the change."""
    listener = build_change_listener(state_location(container.settings))
    if listener is None:
        return []

    async def wait_and_refresh() -> None:
        topics = await listener.wait()
        if topics is None:
            await container.flag_cache.refresh_changed()
        else:
            ids = generations.list_project_ids(topics, FLAG_TOPIC)
            await container.flag_cache.refresh_projects(ids)
        if topics is None or "directory" in topics:
            await container.state.directory.refresh()
        # Their payload depends on flags too.
        await container.surveys.cache.refresh_changed()

    return [
        PeriodicTask(
            name="listen for changes",
            interval_s=INGESTION_INTERVAL_S,
            run=wait_and_refresh,
            max_backoff_s=DELIVERY_MAX_BACKOFF_S,
        )
    ]


def build_usage_tasks(container: Container, limits: Sequence[SharedLimits]) -> list[PeriodicTask]:
    """Share the rate limits with other processes, if there can be any."""
    if container.ingestion.is_embedded:
        return []
    exchange = SqlUsageExchange(container.database)
    return [
        PeriodicTask(
            name="share rate limits",
            interval_s=CHECK_INTERVAL_S,
            run=lambda: share_usage(limits, exchange),
            has_backoff=False,
        )
    ]


def build_shared_tasks(container: Container) -> list[PeriodicTask]:
    """Tasks of every process, whether it serves, works or does both."""
    ingestion = container.ingestion
    return [
        PeriodicTask(
            name="follow the clock of the database",
            interval_s=CHECK_INTERVAL_S,
            run=container.database.follow_clock,
            has_backoff=False,
        ),
        *_build_version_tasks(container),
        *_build_shared_inbox_tasks(ingestion),
        PeriodicTask(
            name="measure inbox lag", interval_s=CHECK_INTERVAL_S, run=ingestion.lag_monitor.refresh
        ),
        PeriodicTask(
            name="delete salts of cookieless visitors",
            interval_s=HOUR_S,
            run=lambda: ingestion.cookieless.delete_expired(utc_now()),
        ),
        PeriodicTask(
            name="compute insights",
            interval_s=INGESTION_INTERVAL_S,
            run=container.dashboards.refresher.run,
            max_backoff_s=DELIVERY_MAX_BACKOFF_S,
        ),
        PeriodicTask(
            name="follow the move to typed columns",
            interval_s=MINUTE_S,
            run=container.event_store.follow_column_move,
        ),
        PeriodicTask(
            name="close idle connections",
            interval_s=CLEANUP_INTERVAL_S,
            run=container.delivery.databases.close_idle,
        ),
    ]


def _build_version_tasks(container: Container) -> list[PeriodicTask]:
    if container.database.engine_name == "sqlite":
        return []
    watch = VersionWatch(container.database)
    return [
        PeriodicTask(name="look for other versions", interval_s=VERSION_INTERVAL_S, run=watch.check)
    ]


def _build_shared_inbox_tasks(ingestion: Ingestion) -> list[PeriodicTask]:
    if ingestion.watch is None:
        return []
    return [
        PeriodicTask(
            name="count waiting events",
            interval_s=PROGRESS_INTERVAL_S,
            run=ingestion.processor.poll_backlog,
        ),
        PeriodicTask(
            name="look for what readers wait for",
            interval_s=READER_INTERVAL_S,
            run=ingestion.watch.poll,
            max_backoff_s=PROGRESS_INTERVAL_S,
        ),
    ]


def build_worker_tasks(container: Container) -> list[PeriodicTask]:
    """Tasks of every process that processes and delivers events."""
    return [
        *_build_ingestion_tasks(container),
        PeriodicTask(
            name="replicate persons to the event store",
            interval_s=CHECK_INTERVAL_S,
            run=container.replication.replicate_changes,
            max_backoff_s=DELIVERY_MAX_BACKOFF_S,
        ),
        *_build_definition_tasks(container),
        PeriodicTask(
            name="count behaviors of cohorts",
            interval_s=CHECK_INTERVAL_S,
            run=container.behaviors.run,
        ),
        *_build_delivery_tasks(container),
        *_build_job_tasks(container),
        PeriodicTask(
            name="update surveys", interval_s=MINUTE_S, run=_build_survey_updates(container).advance
        ),
        _run_in_one_process(
            container,
            "keep insights current",
            MINUTE_S,
            container.dashboards.refresher.request_outdated,
        ),
        _run_in_one_process(
            container,
            "delete unused results of insights",
            MINUTE_S,
            lambda: container.dashboards.result_store.delete_unused(utc_now()),
        ),
        # Each alert and each subscription is claimed by one process.
        PeriodicTask(
            name="check alerts",
            interval_s=SCHEDULE_INTERVAL_S,
            run=container.alerts.checker.check_due,
        ),
        PeriodicTask(
            name="send subscriptions",
            interval_s=SCHEDULE_INTERVAL_S,
            run=container.alerts.sender.send_due,
        ),
        # Each change is executed in one transaction with its flag.
        PeriodicTask(
            name="execute scheduled changes",
            interval_s=CHECK_INTERVAL_S,
            run=_build_scheduled_changes(container).execute_due,
        ),
        # Each plan is claimed by one process, and its flag is changed with it.
        PeriodicTask(
            name="check rollouts",
            interval_s=CHECK_INTERVAL_S,
            run=container.rollouts.runner.check_due,
        ),
        PeriodicTask(
            name="reallocate bandits",
            interval_s=CHECK_INTERVAL_S,
            run=container.rollouts.bandit_runner.reallocate_due,
        ),
        _run_in_one_process(
            container,
            "report stale flags",
            HOUR_S,
            StaleFlagReports(SqlStaleFlagStore(container.database), utc_now).run,
        ),
        PeriodicTask(
            name="delete old pictures",
            interval_s=HOUR_S,
            run=container.alerts.sender.delete_old_pictures,
        ),
        PeriodicTask(
            name="delete expired project keys",
            interval_s=HOUR_S,
            run=lambda: container.state.project_store.delete_expired_tokens(utc_now()),
        ),
        PeriodicTask(
            name="delete ended sessions and links",
            interval_s=HOUR_S,
            run=lambda: container.people.login_store.delete_expired(utc_now(), SESSION_IDLE_TIME),
        ),
        PeriodicTask(
            name="send mail",
            interval_s=CHECK_INTERVAL_S,
            run=lambda: container.people.send_mail(container.state.directory),
        ),
        # More often than once a day, so that a failed run is repeated within the day.
        _run_in_one_process(
            container,
            "enforce event retention",
            HOUR_S,
            EventRetention(container.deletion, _project_loader(container), utc_now).enforce,
        ),
        _run_in_one_process(
            container,
            "move events to typed columns",
            MOVE_INTERVAL_S,
            container.event_store.move_columns,
        ),
        _run_in_one_process(
            container,
            "purge deleted data",
            container.settings.purge_interval_s,
            _build_purge(container).run,
        ),
        PeriodicTask(
            name="delete data of deleted projects",
            interval_s=ERASURE_INTERVAL_S,
            run=_build_erasure(container).run,
        ),
    ]


def _build_definition_tasks(container: Container) -> list[PeriodicTask]:
    upkeep = container.definition_upkeep
    return [
        PeriodicTask(
            name="save learned definitions",
            interval_s=CHECK_INTERVAL_S,
            run=upkeep.save,
            max_backoff_s=DELIVERY_MAX_BACKOFF_S,
        ),
        PeriodicTask(
            name="learn definitions of stored events", interval_s=MINUTE_S, run=upkeep.relearn
        ),
        _run_in_one_process(container, "count event volumes", HOUR_S, upkeep.count_volumes),
    ]


def _run_in_one_process(
    container: Container, name: str, interval_s: float, run: Callable[[], Awaitable[None]]
) -> PeriodicTask:
    claims = TaskClaims(container.database)
    return PeriodicTask(
        name=name,
        interval_s=interval_s,
        run=lambda: claims.run(name, CLAIM_SHARE * interval_s, run),
    )


def _build_purge(container: Container) -> DeletedDataPurge:
    return DeletedDataPurge(SqlDeletionLog(container.database), _list_purges(container), utc_now)


def _build_erasure(container: Container) -> ProjectErasure:
    return ProjectErasure(
        SqlProjectDeletions(container.database),
        container.event_store,
        _list_purges(container),
        utc_now,
        settling_time=min(SETTLING_TIME, timedelta(seconds=container.settings.purge_interval_s)),
        on_purged=_log_purged,
    )


def _log_purged(deletion: ProjectDeletion) -> None:
    _log.info(
        "all data of a deleted project is gone",
        project_id=deletion.project_id,
        rows=deletion.rows_deleted,
        events=deletion.events_deleted,
    )


def _list_purges(container: Container) -> list[Callable[[], Awaitable[None]]]:
    store, state = container.event_store, state_location(container.settings)

    async def purge_events() -> None:
        if store.may_contain_data:
            await store.open_or_unavailable()
            # Replicas of deleted persons are hidden by then, so that the purge removes them.
            await container.replication.replicate_changes()
            await store.purge()

    async def purge_state() -> None:
        if state.is_sqlite:
            await run_in_thread(partial(remove_deleted_rows, state.path, state.timeout_s))

    return [purge_events, purge_state]


def _build_ingestion_tasks(container: Container) -> list[PeriodicTask]:
    ingestion, processor = container.ingestion, container.ingestion.processor
    leases = PeriodicTask(
        name="renew inbox leases",
        interval_s=INBOX_LEASE_INTERVAL_S,
        run=processor.renew_leases,
        has_backoff=False,
    )
    return [
        *([] if ingestion.is_embedded else [leases]),
        PeriodicTask(
            name="process events",
            interval_s=INGESTION_INTERVAL_S,
            run=processor.process,
            max_backoff_s=INGESTION_MAX_BACKOFF_S,
        ),
        PeriodicTask(
            name="store events",
            interval_s=INGESTION_INTERVAL_S,
            run=processor.store,
            max_backoff_s=INGESTION_MAX_BACKOFF_S,
        ),
        PeriodicTask(
            name="create delayed deliveries",
            interval_s=INGESTION_INTERVAL_S,
            run=processor.work_off_routing,
            max_backoff_s=INGESTION_MAX_BACKOFF_S,
        ),
        PeriodicTask(
            name="open event store",
            interval_s=CHECK_INTERVAL_S,
            run=container.event_store.open_if_used,
        ),
        PeriodicTask(
            name="merge event store parts",
            interval_s=MINUTE_S,
            run=container.event_store.compact,
        ),
        PeriodicTask(
            name="delete old ingestion warnings",
            interval_s=MINUTE_S,
            run=ingestion.warnings.delete_old,
        ),
    ]


def _build_delivery_tasks(container: Container) -> list[PeriodicTask]:
    delivery = container.delivery

    async def delete_old() -> None:
        await delivery.records.expire_old(delivery.ages, utc_now())

    watch = ClockWatch(utc_now, time.monotonic)

    async def follow_set_back_clock() -> None:
        newest = await delivery.records.find_newest_time() if watch.is_new else None
        if watch.was_set_back(newest):
            await delivery.records.follow_set_back_clock(utc_now())

    notifier = delivery.notifier
    return [
        *(
            [
                PeriodicTask(
                    name="send notifications", interval_s=CHECK_INTERVAL_S, run=notifier.send_due
                )
            ]
            if notifier is not None
            else []
        ),
        PeriodicTask(
            name="count waiting deliveries",
            interval_s=BACKLOG_INTERVAL_S,
            run=delivery.backlogs.refresh,
        ),
        PeriodicTask(
            name="deliver events",
            interval_s=DELIVERY_INTERVAL_S,
            run=delivery.deliverer.run,
            max_backoff_s=DELIVERY_MAX_BACKOFF_S,
        ),
        PeriodicTask(
            name="renew delivery leases",
            interval_s=DELIVERY_LEASE_INTERVAL_S,
            run=delivery.deliverer.renew_leases,
        ),
        PeriodicTask(
            name="follow a clock that was set back",
            interval_s=CHECK_INTERVAL_S,
            run=follow_set_back_clock,
        ),
        PeriodicTask(
            name="delete delivered events",
            interval_s=CHECK_INTERVAL_S,
            run=delivery.records.delete_delivered,
        ),
        PeriodicTask(name="delete old deliveries", interval_s=HOUR_S, run=delete_old),
        PeriodicTask(
            name="complete export files",
            interval_s=CLEANUP_INTERVAL_S,
            run=delivery.files.finish_due_files,
        ),
    ]


def _build_job_tasks(container: Container) -> list[PeriodicTask]:
    jobs = container.jobs
    return [
        PeriodicTask(
            name="run jobs",
            interval_s=JOB_INTERVAL_S,
            run=jobs.runner.run,
            max_backoff_s=DELIVERY_MAX_BACKOFF_S,
        ),
        PeriodicTask(
            name="renew job leases", interval_s=JOB_LEASE_INTERVAL_S, run=jobs.runner.renew_leases
        ),
        PeriodicTask(
            name="start scheduled imports", interval_s=CHECK_INTERVAL_S, run=jobs.scheduler.run_due
        ),
    ]


def _build_request_tasks(container: Container) -> list[PeriodicTask]:
    """Only for an embedded event store: no other process can open it."""
    location = event_store_location(container.settings)
    if location.url:
        return []
    actions = EventStoreActions(
        events=container.event_store,
        deletion=container.deletion,
        persons=SqlPersonStore(container.database),
    )
    requests = EventStoreRequests(RequestFiles(location.folder), actions)
    return [
        PeriodicTask(
            name="serve requests of commands", interval_s=CHECK_INTERVAL_S, run=requests.serve
        )
    ]


def _build_scheduled_changes(container: Container) -> ScheduledChangeRunner:
    return ScheduledChangeRunner(
        SqlScheduledChangeStore(container.database, container.flag_store),
        container.flag_cache,
        container.state.directory,
        lambda: container.pipelines.encryption_keys,
        compile_patterns,
        utc_now,
    )


def _build_survey_updates(container: Container) -> SurveyLifecycle:
    surveys = container.surveys
    return SurveyLifecycle(
        surveys.surveys, surveys.cache, surveys.responses, _project_loader(container), utc_now
    )


def _project_loader(container: Container) -> Callable[[], Awaitable[Iterable[Project]]]:
    directory = container.state.directory

    async def load_projects() -> Iterable[Project]:
        await directory.refresh()
        return directory.list_projects()

    return load_projects


def _poll(name: str, run: Callable[[], Awaitable[None]]) -> PeriodicTask:
    return PeriodicTask(name=name, interval_s=POLL_INTERVAL_S, run=run, has_backoff=False)
