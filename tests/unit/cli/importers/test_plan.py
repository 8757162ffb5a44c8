"""The plan of an import names the items that the target project cannot have."""

import pytest
from tests.unit.importers.test_posthog import flag, groups
from tests.unit.projects.factories import make_project

from hedgerow.cli.importers.plan import ImportOptions, build_plan
from hedgerow.cli.importers.target import ImportTarget
from hedgerow.importers.posthog import PostHogDefinitions, convert_posthog


def test_items_without_a_free_group_type_are_listed_as_skipped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = ImportTarget("http://127.0.0.1:1", "key", None, ())
    target.project = make_project()
    target.state.group_types = {f"type {n}": n for n in range(5)}
    source = convert_posthog(
        PostHogDefinitions(
            group_types=[{"group_type": "company", "group_type_index": 0}],
            flags=[flag(1, "by-company", groups(aggregation_group_type_index=0)), flag(2, "all")],
        )
    )
    plan = build_plan(source, target, {}, overwrite=False)
    assert [each.item.name for each in plan.decisions] == ["all"]
    options = ImportOptions(yes=False, dry_run=True, overwrite=False, as_json=False)
    assert not options.approve(plan, "Plan:")
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "Skipped:",
        "  group type company: A project has at most 5 group types.",
        "  flag by-company: It needs the group type company, and the target project has no free "
        "group type.",
    ]
