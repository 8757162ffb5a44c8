"""Flags owned by early access features, surveys and running experiments."""

import pytest
from sqlalchemy import update

from hedgerow.errors import Invalid
from hedgerow.flags.as_code.apply import FlagsAsCode
from hedgerow.flags.edits import FlagFields
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.storage.tables import flags
from hedgerow.surveys.surveys import SurveyEdit
from tests.contract.storage import test_experiments as experiments
from tests.contract.storage import test_surveys as surveys
from tests.contract.storage.conftest import ACTOR, LATER, NOW, Stores
from tests.contract.storage.flags import test_early_access as early_access

FREE = {"version": 1, "flags": []}


async def test_plan_keeps_owned_flags_and_says_why(stores: Stores) -> None:
    project, other = await stores.new_project(), await stores.new_project("Other")
    process = surveys.Process(stores)
    survey = await process.surveys.create(
        project,
        SurveyEdit(fields=surveys.build_edit().fields, targeting_filters=surveys.SOME),
        ACTOR,
        NOW,
    )
    early = early_access.build_service(stores)
    _, chosen = await early.create(project, early_access.fields("F"), None, ACTOR, NOW)
    service = experiments.build_service(stores)
    _, running = await service.create(project, "runs", {"name": "E", "start_date": NOW}, ACTOR, NOW)
    await service.create(project, "draft", {"name": "D"}, ACTOR, NOW)
    assert survey.targeting is not None
    assert await stores.flags.deletion_blockers(other.id) == {}
    assert await stores.flags.deletion_blockers(project.id) == {
        survey.internal.id: "it belongs to the survey 'Größe'. Delete the survey first.",
        survey.targeting.id: "it belongs to the survey 'Größe'. Delete the survey first.",
        chosen.id: "it belongs to the early access feature 'F'. "
        "Delete the early access feature first.",
        running.id: "the experiment 'E' is running on it. End the experiment first.",
    }
    as_code = FlagsAsCode(stores.flags)
    plan = await as_code.plan(project, FREE, prune=True, actor=COMMAND_LINE, now=LATER)
    assert [flag.key for flag in plan.deleted] == ["draft"]
    await as_code.apply(plan, COMMAND_LINE, LATER)
    kept = (await stores.flags.definitions(project.id, "UTC")).flags
    assert {flag.id for flag in kept} == (await stores.flags.deletion_blockers(project.id)).keys()


async def test_plan_that_breaks_an_experiment_is_rejected(
    stores: Stores,
) -> None:
    project = await stores.new_project()
    await experiments.build_service(stores).create(
        project, "runs", {"name": "E", "start_date": NOW}, ACTOR, NOW
    )
    as_code = FlagsAsCode(stores.flags)
    everybody = {"key": "runs", "filters": {"groups": [{"rollout_percentage": 100}]}}
    expected = {"version": 1, "flags": [everybody]}
    plan = await as_code.plan(project, expected, prune=False, actor=COMMAND_LINE, now=LATER)
    with pytest.raises(Invalid, match="Variants cannot change") as refused:
        await as_code.apply(plan, COMMAND_LINE, LATER)
    assert refused.value.attr == "runs: filters.multivariate.variants"


async def test_unowned_flag_with_a_survey_key_can_be_renamed(
    stores: Stores,
) -> None:
    """The flag was created before such keys were rejected."""
    project = await stores.new_project()
    process = surveys.Process(stores)
    survey = await process.surveys.create(project, surveys.build_edit(), ACTOR, NOW)
    plain = {"groups": [{"properties": [], "rollout_percentage": 100}]}
    expected = {"version": 1, "flags": [{"key": "once", "filters": plain}]}
    as_code = FlagsAsCode(stores.flags)
    plan = await as_code.plan(project, expected, prune=False, actor=COMMAND_LINE, now=NOW)
    await as_code.apply(plan, COMMAND_LINE, NOW)
    older = update(flags).where(flags.c.key == "once").values(key="survey-targeting-mine")
    await stores.database.write(lambda connection: connection.execute(older))
    mine = await process.flags.find(project, "survey-targeting-mine")
    for fields in (FlagFields(active=False), FlagFields(key="mine")):
        mine = await process.flags.change(project, mine.id, fields, seen=None, actor=ACTOR, now=NOW)
    assert (mine.key, mine.active) == ("mine", False)
    with pytest.raises(Invalid, match="belongs to the survey"):
        await process.flags.change(
            project,
            survey.internal.id,
            FlagFields(key="mine-too"),
            seen=None,
            actor=ACTOR,
            now=NOW,
        )
