"""The checks of `hedgerow doctor` of waiting work: events, destinations, jobs."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from sqlalchemy import Connection, func, select

from hedgerow.app.commands.doctor import CheckResult, Verdict
from hedgerow.app.state import events_folder
from hedgerow.lib.clock import utc_now
from hedgerow.lib.text import truncate
from hedgerow.plugin.component import Family
from hedgerow.settings import Settings
from hedgerow.storage.events.folder_lock import is_locked
from hedgerow.storage.ingestion.inbox_state import read_backlog
from hedgerow.storage.projects.deletions import read_unpurged
from hedgerow.storage.tables.ingestion import set_aside_events
from hedgerow.storage.waiting_work import (
    RecordHealth,
    count_open_jobs,
    has_active_lease,
    read_record_health,
    read_waiting_events,
)

# A running installation processes an event within a second.
MAX_EVENT_AGE_S = 60
MAX_DELIVERY_AGE_S = 600
MAX_DELETION_AGE_S = 7200
MAX_LISTED_RECORDS = 20
MAX_ERROR_CHARS = 300
# How the addresses of the console name the families.
PAGES = {
    Family.TRANSFORMATION: "transformations",
    Family.DESTINATION: "destinations",
    Family.IMPORT_APP: "import-apps",
    Family.FRONTEND_APP: "site-apps",
}


def check_workload(
    connection: Connection, settings: Settings, format_command: Callable[[str], str]
) -> Iterator[CheckResult]:
    """Check that work does not wait for nothing. `format_command` returns a command to paste."""
    return _WorkloadChecks(connection, settings, format_command).run()


class _WorkloadChecks:
    def __init__(
        self, connection: Connection, settings: Settings, format_command: Callable[[str], str]
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._format_command = format_command
        self._now_ms = utc_now().timestamp() * 1000

    def run(self) -> Iterator[CheckResult]:
        yield self._check_dead_letters()
        yield self._check_inbox()
        yield self._check_jobs()
        yield from self._check_project_deletions()
        yield from self._check_records()

    def _check_dead_letters(self) -> CheckResult:
        number = func.sum(set_aside_events.c.number)
        counted = select(number, func.max(set_aside_events.c.project_id))
        count, project_id = self._connection.execute(counted).one()
        if not count:
            return CheckResult("ok", "dead letters", "none")
        hint = self._format_command("events dead-letters list")
        detail = f"{count:,} event(s) could not be processed. Run `{hint}` for the reasons."
        page = project_id and f"/project/{project_id}/data-management/ingestion-warnings"
        return CheckResult("problem", "dead letters", detail, page)

    def _check_inbox(self) -> CheckResult:
        waiting = read_waiting_events(self._connection)
        if waiting.oldest_ms is None:
            return CheckResult("ok", "inbox", "no event waits")
        age_s = self._age_s(waiting.oldest_ms)
        detail = f"{waiting.number:,} event(s) wait, the oldest for {format_age(age_s)}"
        is_filling = waiting.number >= self._settings.inbox_max_events // 2
        if is_filling:
            detail += self._describe_fullness()
        if age_s >= MAX_EVENT_AGE_S:
            return CheckResult("problem", "inbox", f"{detail}. {self._explain_waiting()}")
        return CheckResult("warning" if is_filling else "ok", "inbox", detail)

    def _describe_fullness(self) -> str:
        backlog = read_backlog(self._connection)
        projects = Counter(backlog.unprocessed) + Counter(backlog.unstored)
        most = ""
        if projects:
            ((project_id, _),) = projects.most_common(1)
            most = f", most of them of project {project_id}"
        limit = self._settings.inbox_max_events
        return f"{most}. At {limit} (HEDGEROW_INBOX_MAX_EVENTS) clients get 503"

    def _check_jobs(self) -> CheckResult:
        count = count_open_jobs(self._connection)
        if not count:
            return CheckResult("ok", "jobs", "none is open")
        if self._has_worker():
            return CheckResult("ok", "jobs", f"{count:,} open")
        return CheckResult("problem", "jobs", f"{count:,} open. {self._explain_waiting()}")

    def _check_project_deletions(self) -> Iterator[CheckResult]:
        for deletion in read_unpurged(self._connection):
            age_s = self._age_s(int(deletion.requested_at.timestamp() * 1000))
            detail = (
                f"{truncate(deletion.name)!r} was deleted {format_age(age_s)} ago: "
                f"{deletion.rows_deleted:,} row(s) are gone, its data is being deleted"
            )
            check = f"deleted project {deletion.project_id}"
            if age_s < MAX_DELETION_AGE_S:
                yield CheckResult("ok", check, detail)
            else:
                yield CheckResult("problem", check, f"{detail}. {self._explain_waiting()}")

    def _check_records(self) -> Iterator[CheckResult]:
        records = read_record_health(self._connection)
        found = [result for record in records for result in self._check_record(record)]
        if not found:
            enabled = sum(each.enabled and each.family is Family.DESTINATION for each in records)
            yield CheckResult("ok", "destinations", f"{enabled} enabled, none is paused or behind")
        yield from found[:MAX_LISTED_RECORDS]
        yield from _summarize(found[MAX_LISTED_RECORDS:])

    def _check_record(self, record: RecordHealth) -> Iterator[CheckResult]:
        check = f"{record.family.value} {record.id}"
        page = f"/project/{record.project_id}/pipeline/{PAGES[record.family]}/{record.id}"
        name = f"{truncate(record.name)!r} of project" if record.name else "of project"
        error = record.pause_state.error[:MAX_ERROR_CHARS]
        if record.family is Family.TRANSFORMATION:
            if record.enabled and error:
                detail = f"{name} {record.project_id} fails, so events pass unchanged: {error}"
                yield CheckResult("warning", check, detail, page)
            return
        queue = self._describe_queue(record)
        about = f"{name} {record.project_id}"
        if record.enabled and record.pause_state.is_paused:
            detail = f"{about} is paused. {queue}{error} Fix the cause, or disable the destination."
            yield CheckResult("problem", check, detail, page)
        elif record.enabled and self._oldest_s(record) >= MAX_DELIVERY_AGE_S:
            hint = error or self._explain_waiting()
            yield CheckResult("warning", check, f"{about} is behind. {queue}{hint}", page)
        elif not record.enabled and queue:
            detail = f"{about} is disabled. {queue}They are sent when you enable it."
            yield CheckResult("warning", check, detail, page)
        if record.backlog.dead:
            detail = (
                f"{about} has {record.backlog.dead:,} dead letter(s). Its page lists them with the "
                "reason, and sends them again."
            )
            yield CheckResult("warning", check, detail, f"{page}?tab=dead")

    def _describe_queue(self, record: RecordHealth) -> str:
        number = record.backlog.waiting + record.backlog.retrying
        if not number:
            return ""
        return f"{number:,} event(s) wait, the oldest for {format_age(self._oldest_s(record))}. "

    def _oldest_s(self, record: RecordHealth) -> float:
        return self._age_s(record.backlog.oldest_ms) if record.backlog.oldest_ms else 0.0

    def _age_s(self, since_ms: int) -> float:
        return max(0.0, self._now_ms - since_ms) / 1000

    def _explain_waiting(self) -> str:
        if self._has_worker():
            return "A process works on them, but fails or is too slow: read its log."
        command = self._format_command("worker" if self._settings.clickhouse_url else "serve")
        return f"No process works on them: start one with `{command}`."

    def _has_worker(self) -> bool:
        """Return whether a process works on this installation: it locks an embedded event store,
        and on PostgreSQL it renews the leases of its work."""
        if self._settings.database_url and has_active_lease(self._connection):
            return True
        return not self._settings.clickhouse_url and is_locked(events_folder(self._settings))


def _summarize(rest: Sequence[CheckResult]) -> Iterator[CheckResult]:
    if rest:
        verdict: Verdict = "problem" if any(r.verdict == "problem" for r in rest) else "warning"
        yield CheckResult(verdict, "destinations", f"{len(rest)} more need your attention")


def format_age(seconds: float) -> str:
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}s"
    return f"{seconds:.0f} seconds"
