"""What a plan says of what there is no room for, and how far a move is, on a terminal."""

import pytest
from rich.progress import TextColumn

from hedgerow.cli.moving_plan import planned, progress, show
from hedgerow.cli.moving_target import Target
from hedgerow.importers.posthog import Definitions, understood
from tests.unit.importers.test_posthog import flag, groups


def test_what_there_is_no_room_for_is_in_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    target = Target("http://127.0.0.1:1", "key", None, ())
    target.there.group_types = {f"type {n}": n for n in range(5)}
    reading = understood(
        Definitions(
            group_types=[{"group_type": "company", "group_type_index": 0}],
            flags=[flag(1, "by-company", groups(aggregation_group_type_index=0)), flag(2, "all")],
        )
    )
    plan = planned(reading, target, {}, overwrite=False)
    assert [each.wanted.name for each in plan.decisions] == ["all"]
    show(plan, "Plan:", [])
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "Cannot be copied:",
        "  group type company: There is room for 5 here.",
        "  flag by-company: It is about groups of type company, for which there is no room here.",
    ]


def test_names_of_others_are_no_markup() -> None:
    bar = progress()
    bar.add_task("members of Users [/beta] [red]")
    first = bar.columns[0]
    assert isinstance(first, TextColumn)
    assert str(first.render(bar.tasks[0])) == "members of Users [/beta] [red]"
