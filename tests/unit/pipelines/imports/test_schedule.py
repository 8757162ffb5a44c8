from datetime import UTC, datetime, timedelta

import pytest

from hedgerow.errors import Invalid
from hedgerow.pipelines.imports.schedule import check_schedule, next_run

NOW = datetime(2026, 3, 1, 12, 30, 15, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_interval_starts_immediately_and_keeps_its_rhythm() -> None:
    assert next_run("6h", NOW, None) == NOW
    assert next_run("6h", NOW, NOW - HOUR) == NOW + 5 * HOUR
    # Several missed runs are made up for by one run.
    assert next_run("15m", NOW, NOW - 100 * HOUR) == NOW + timedelta(minutes=15)


@pytest.mark.parametrize(
    ("line", "moment"),
    [
        ("0 4 * * *", datetime(2026, 3, 2, 4, 0, tzinfo=UTC)),
        ("*/15 * * * *", datetime(2026, 3, 1, 12, 45, tzinfo=UTC)),
        ("30 12 * * MON", datetime(2026, 3, 2, 12, 30, tzinfo=UTC)),
        ("0 0 29 2 *", datetime(2028, 2, 29, tzinfo=UTC)),
        ("0 0 L * *", datetime(2026, 3, 31, tzinfo=UTC)),
    ],
)
def test_cron_expression_is_in_utc(line: str, moment: datetime) -> None:
    assert next_run(line, NOW, None) == next_run(line, NOW, NOW - HOUR) == moment
    check_schedule(line)


@pytest.mark.parametrize(
    "text", ["0m", "999d", "5s", "soon", "* * *", "61 * * * *", "0 0 30 2 *", "1h30m", "٣h"]
)
def test_invalid_schedule_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as refusal:
        check_schedule(text)
    assert refusal.value.attr == "config__schedule"


def test_empty_schedule_is_valid() -> None:
    check_schedule("")
