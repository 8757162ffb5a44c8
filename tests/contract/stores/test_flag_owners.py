"""Flags that something else cannot do without: features, surveys and running experiments."""

import pytest
from sqlalchemy import update

from hedgerow.errors import Invalid
from hedgerow.flags.as_code import FlagsAsCode
from hedgerow.flags.edits import FlagFields
from hedgerow.projects.activity import TERMINAL
from hedgerow.storage.tables import flags
from hedgerow.surveys.surveys import Wish
from tests.contract.stores import test_early_access as early_access
from tests.contract.stores import test_experiments as experiments
from tests.contract.stores import test_surveys as surveys
from tests.contract.stores.conftest import LATER, NOW, SOMEBODY, Stores

FREE = {"version": 1, "flags": []}


async def test_a_plan_leaves_alone_what_is_needed_and_says_for_what(stores: Stores) -> None:
    project, other = await stores.new_project(), await stores.new_project("Other")
    process = surveys.Process(stores)
    survey = await process.surveys.create(
        project, Wish(fields=surveys.wish().fields, targeting_filters=surveys.SOME), SOMEBODY, NOW
    )
    early = early_access.room(stores)
    _, chosen = await early.create(project, early_access.fields("F"), None, SOMEBODY, NOW)
    tried = experiments.room(stores)
    _, running = await tried.create(
        project, "runs", {"name": "E", "start_date": NOW}, SOMEBODY, NOW
    )
    await tried.create(project, "draft", {"name": "D"}, SOMEBODY, NOW)
    assert survey.targeting is not None
    assert await stores.flags.held(other.id) == {}
    assert await stores.flags.held(project.id) == {
        survey.internal.id: "it belongs to the survey 'Größe'. Delete that first.",
        survey.targeting.id: "it belongs to the survey 'Größe'. Delete that first.",
        chosen.id: "it belongs to the early access feature 'F'. Delete that first.",
        running.id: "the experiment 'E' runs on it. End that first.",
    }
    as_code = FlagsAsCode(stores.flags)
    plan = await as_code.plan(project, FREE, prune=True, actor=TERMINAL, now=LATER)
    assert [flag.key for flag in plan.deleted] == ["draft"]
    await as_code.apply(plan, TERMINAL, LATER)
    kept = (await stores.flags.definitions(project.id, "UTC")).flags
    assert {flag.id for flag in kept} == (await stores.flags.held(project.id)).keys()


async def test_a_plan_that_disturbs_an_experiment_is_refused_by_the_flags_name(
    stores: Stores,
) -> None:
    project = await stores.new_project()
    await experiments.room(stores).create(
        project, "runs", {"name": "E", "start_date": NOW}, SOMEBODY, NOW
    )
    as_code = FlagsAsCode(stores.flags)
    everybody = {"key": "runs", "filters": {"groups": [{"rollout_percentage": 100}]}}
    wanted = {"version": 1, "flags": [everybody]}
    plan = await as_code.plan(project, wanted, prune=False, actor=TERMINAL, now=LATER)
    with pytest.raises(Invalid, match="Variants cannot change") as refused:
        await as_code.apply(plan, TERMINAL, LATER)
    assert refused.value.attr == "runs: filters.multivariate.variants"


async def test_a_flag_with_a_key_of_surveys_that_is_nobodys_can_get_another(
    stores: Stores,
) -> None:
    """Somebody made it before such keys were refused."""
    project = await stores.new_project()
    process = surveys.Process(stores)
    survey = await process.surveys.create(project, surveys.wish(), SOMEBODY, NOW)
    plain = {"groups": [{"properties": [], "rollout_percentage": 100}]}
    wanted = {"version": 1, "flags": [{"key": "once", "filters": plain}]}
    as_code = FlagsAsCode(stores.flags)
    plan = await as_code.plan(project, wanted, prune=False, actor=TERMINAL, now=NOW)
    await as_code.apply(plan, TERMINAL, NOW)
    older = update(flags).where(flags.c.key == "once").values(key="survey-targeting-mine")
    await stores.database.write(lambda connection: connection.execute(older))
    mine = await process.flags.find(project, "survey-targeting-mine")
    for fields in (FlagFields(active=False), FlagFields(key="mine")):
        mine = await process.flags.change(
            project, mine.id, fields, seen=None, actor=SOMEBODY, now=NOW
        )
    assert (mine.key, mine.active) == ("mine", False)
    with pytest.raises(Invalid, match="belongs to the survey"):
        await process.flags.change(
            project,
            survey.internal.id,
            FlagFields(key="mine-too"),
            seen=None,
            actor=SOMEBODY,
            now=NOW,
        )
