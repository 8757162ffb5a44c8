"""The state of the installation for its owners, over HTTP: figures, and the checks of `hedgerow
doctor` that a running service can make.
"""

import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Connection, func, select, text

from hedgerow import __version__
from hedgerow.app.commands.doctor import LOW_DISK_BYTES, CheckResult
from hedgerow.app.commands.doctor_checks import check_workload
from hedgerow.app.container import Container
from hedgerow.app.state import events_folder
from hedgerow.http.api.instance_status import (
    InstanceStatusResults,
    OpenJob,
    StatusCheck,
    StatusMetric,
)
from hedgerow.lib.clock import format_iso
from hedgerow.lib.threads import run_in_thread
from hedgerow.pipelines.model import JobStatus
from hedgerow.settings import Settings
from hedgerow.storage.tables import pipeline_jobs, pipeline_records
from hedgerow.storage.tables.ingestion import inbox_workers

MAX_JOBS = 100
OPEN_STATUSES = (JobStatus.WAITING.value, JobStatus.RUNNING.value, JobStatus.PAUSED.value)


class InstanceStatusReader:
    def __init__(self, container: Container) -> None:
        self._container = container
        self._settings = container.settings

    async def read(self) -> InstanceStatusResults:
        container, settings = self._container, self._settings
        (
            checks,
            (jobs, jobs_count),
            processes,
            database_bytes,
        ) = await container.database.read_in_background(self._read_database)
        files = await run_in_thread(lambda: list(_measure_files(settings)))
        free_bytes = await run_in_thread(lambda: shutil.disk_usage(settings.data_dir).free)
        database = container.database
        engine = "SQLite" if database.engine_name == "sqlite" else "PostgreSQL"
        overview = (
            _metric("hedgerow_version", "Hedgerow version", __version__),
            _metric("python_version", "Python version", platform.python_version()),
            _metric("database", "Database", f"{engine} {await database.version()}"),
            *database_bytes,
            *files,
            _metric("disk_free_bytes", "Free disk space", free_bytes),
            _metric("processes", "Processes that work on events", processes),
            *self._list_figures(),
        )
        return InstanceStatusResults(
            overview=overview,
            checks=[
                StatusCheck(
                    verdict=each.verdict, check=each.check, detail=each.detail, page=each.page
                )
                for each in (*self._check_process(free_bytes), *checks)
            ],
            jobs=jobs,
            jobs_count=jobs_count,
        )

    def _read_database(
        self, connection: Connection
    ) -> tuple[list[CheckResult], tuple[list[OpenJob], int], int, list[StatusMetric]]:
        checks = list(check_workload(connection, self._settings, _format_command))
        is_sqlite = not self._settings.database_url
        return (
            checks,
            _read_open_jobs(connection),
            1 if is_sqlite else _count_processes(connection),
            [] if is_sqlite else [_measure_postgres(connection)],
        )

    def _list_figures(self) -> Iterator[StatusMetric]:
        """List what this process already knows about the installation."""
        ingestion, directory = self._container.ingestion, self._container.state.directory
        monitor = ingestion.lag_monitor
        backlogs = [each.backlog for each in self._container.delivery.backlogs.all().values()]
        yield _metric("projects", "Projects", directory.project_count)
        yield _metric("members", "Members", len(directory.list_users()))
        yield _metric("inbox_events", "Events in the inbox", ingestion.progress.waiting)
        yield _metric("inbox_oldest_s", "Age of the oldest event in s", round(monitor.seconds(), 1))
        yield _metric("inbox_max_events", "Inbox limit", self._settings.inbox_max_events)
        yield _metric("dead_letters", "Dead letters of events", monitor.dead_letters)
        waiting = sum(each.waiting + each.retrying for each in backlogs)
        yield _metric("deliveries_waiting", "Waiting deliveries", waiting)
        yield _metric("deliveries_dead", "Dead deliveries", sum(each.dead for each in backlogs))

    def _check_process(self, free_bytes: int) -> Iterator[CheckResult]:
        detail = f"{free_bytes / 1024**3:.1f} GiB free"
        yield CheckResult("ok" if free_bytes >= LOW_DISK_BYTES else "warning", "disk", detail)
        failing = self._container.task_health.failing_count()
        if failing:
            detail = f"{failing} failed in their last run. Read the log of the service."
            yield CheckResult("problem", "background tasks", detail)
        else:
            yield CheckResult("ok", "background tasks", "none fails")
        damage = self._container.event_store.damage_count
        if damage:
            detail = f"{damage} finding(s) of damaged files. Run `hedgerow doctor`."
            yield CheckResult("problem", "event store", detail)


def _format_command(arguments: str) -> str:
    return f"hedgerow {arguments}"


def _metric(key: str, metric: str, value: str | int | float | None) -> StatusMetric:
    return StatusMetric(key=key, metric=metric, value=value)


def _measure_files(settings: Settings) -> Iterator[StatusMetric]:
    """Measure the files of embedded databases."""
    if not settings.database_url:
        path = settings.sqlite_path
        size = sum(_measure(path.with_name(path.name + suffix)) for suffix in ("", "-wal"))
        yield _metric("database_bytes", "Size of the database", size)
    if settings.clickhouse_url:
        yield _metric("event_store", "Event store", "ClickHouse")
        return
    yield _metric("event_store", "Event store", "chDB, in this installation")
    folder = events_folder(settings)
    size = sum(_measure(Path(at) / name) for at, _, names in os.walk(folder) for name in names)
    yield _metric("event_store_bytes", "Size of the event store", size)


def _measure(path: Path) -> int:
    """Return the size on disk; 0 for a file that a merge has just removed."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _measure_postgres(connection: Connection) -> StatusMetric:
    size = connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
    return _metric("database_bytes", "Size of the database", size)


def _count_processes(connection: Connection) -> int:
    """Count the processes that renew their leases. On PostgreSQL only, with its clock."""
    alive = inbox_workers.c.expires_at > func.clock_timestamp()
    return connection.execute(select(func.count()).where(alive)).scalar_one()


def _read_open_jobs(connection: Connection) -> tuple[list[OpenJob], int]:
    job, record = pipeline_jobs, pipeline_records
    is_open = job.c.status.in_(OPEN_STATUSES)
    rows = connection.execute(
        select(job, record.c.name, record.c.family)
        .join_from(job, record, job.c.record_id == record.c.id)
        .where(is_open)
        .order_by(job.c.created_at.desc(), job.c.id.desc())
        .limit(MAX_JOBS)
    )
    jobs = [
        OpenJob(
            id=row.id,
            project_id=row.project_id,
            pipeline_id=row.record_id,
            pipeline_name=row.name,
            family=row.family,
            type=row.type,
            status=row.status,
            done=row.done,
            total=row.total,
            rate=row.rate,
            requested_by=row.requested_by,
            created_at=format_iso(row.created_at),
            updated_at=format_iso(row.updated_at),
        )
        for row in rows
    ]
    return jobs, connection.execute(select(func.count()).where(is_open)).scalar_one()
