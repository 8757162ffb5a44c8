"""Requests that were refused because a project or an address reached a limit: counted for the
metrics, and logged with the project."""

import time
from collections import Counter

import structlog

from hedgerow.http.server.metrics import LabelledMetric
from hedgerow.projects.model import ProjectId

LOG_INTERVAL_S = 60.0
# Each project adds time series. Projects above this limit share one.
MAX_LABELLED = 200

_log = structlog.get_logger("hedgerow.limits")


class Refusals:
    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._logged_at_s: dict[tuple[str, str], float] = {}

    def count(self, limit: str, project_id: ProjectId | None) -> None:
        """Count a refused request. Logs a limit and a project at most once a minute."""
        key = limit, "" if project_id is None else str(project_id)
        if key not in self._counts and len(self._counts) >= MAX_LABELLED:
            key = limit, "other"
        self._counts[key] += 1
        now_s = time.monotonic()
        if now_s - self._logged_at_s.get(key, -LOG_INTERVAL_S) >= LOG_INTERVAL_S:
            self._logged_at_s[key] = now_s
            _log.warning(
                "requests refused by a limit",
                limit=limit,
                project_id=project_id,
                refused=self._counts[key],
            )

    def metric(self) -> LabelledMetric:
        return LabelledMetric(
            name="hedgerow_requests_refused_total",
            help="Requests that were refused because of a limit of a project or an address.",
            labels=("limit", "project"),
            values={key: float(count) for key, count in list(self._counts.items())},
        )
