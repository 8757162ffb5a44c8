"""An alert for tests."""

from datetime import UTC, datetime

from hedgerow.alerts.model import (
    Alert,
    AlertCondition,
    AlertConfig,
    AlertState,
    CheckInterval,
    ConditionType,
)
from hedgerow.dashboards.model import InsightId
from hedgerow.projects.model import ProjectId

NOW = datetime(2026, 6, 10, 12, tzinfo=UTC)


def build_alert() -> Alert:
    return Alert(
        id="0192f0c4-0000-4000-8000-000000000001",
        project_id=ProjectId(1),
        insight_id=InsightId(1),
        name="Too few visits",
        enabled=True,
        condition=AlertCondition(type=ConditionType.ABSOLUTE, lower=10),
        config=AlertConfig(series_index=0, checks_ongoing=False),
        calculation_interval=CheckInterval.DAILY,
        skip_weekend=False,
        snoozed_until=None,
        subscribed_users=(),
        destinations=(),
        state=AlertState.NOT_FIRING,
        created_by="ann@example.com",
        created_at=NOW,
        last_checked_at=None,
        next_check_at=NOW,
        last_notified_at=None,
        last_value=None,
    )
