"""Owners of a flag: the early access feature, survey or experiment that depends on it.

Changes that an owner cannot cope with are rejected.
"""

from collections.abc import Mapping

from sqlalchemy import Connection, select

from hedgerow.errors import Invalid
from hedgerow.flags.early_access import find_flag_problem
from hedgerow.flags.model import Flag, FlagId
from hedgerow.lib.text import truncate
from hedgerow.projects.model import ProjectId
from hedgerow.rollouts.bandits.model import BanditState
from hedgerow.rollouts.model import PlanState
from hedgerow.storage.flags.experiment_state import RUNNING
from hedgerow.storage.tables import (
    bandits,
    early_access_features,
    experiments,
    rollout_plans,
    surveys,
)

FEATURE = "early access feature"
SURVEY = "survey"


def list_deletion_blockers(connection: Connection, project_id: ProjectId) -> Mapping[FlagId, str]:
    """Return, for each flag that has an owner, why it cannot be deleted."""
    running = select(experiments.c.flag_id, experiments.c.name).where(
        (experiments.c.project_id == project_id) & RUNNING
    )
    tried = {
        FlagId(id): f"the experiment {truncate(name)!r} is running on it. End the experiment first."
        for id, name in connection.execute(running)
    }
    return tried | {
        FlagId(id): _describe_owner(kind, name)
        for kind, table, its_flag in (
            (FEATURE, early_access_features, early_access_features.c.flag_id),
            (SURVEY, surveys, surveys.c.internal_targeting_flag_id),
            (SURVEY, surveys, surveys.c.targeting_flag_id),
        )
        for id, name in connection.execute(
            select(its_flag, table.c.name).where(
                (table.c.project_id == project_id) & its_flag.is_not(None)
            )
        )
    }


def check_owners_unaffected(connection: Connection, before: Flag | None, after: Flag) -> None:
    """Raise Invalid if a feature or a survey would lose its flag or could no longer use it."""
    if after.deleted:
        _check_deletable(connection, after)
    if before is None:
        return
    if after.key != before.key and (name := _find_survey_name(connection, after.id)) is not None:
        raise Invalid(
            f"The key cannot change: the flag belongs to the survey {truncate(name)!r}.",
            attr="key",
        )
    if after.key != before.key:
        _check_no_running_plan(connection, after)
    # A flag that is already unsuitable can still be changed, so that it can be fixed.
    if (reason := find_flag_problem(after)) and not find_flag_problem(before):
        _check_not_owned_by_feature(connection, after, reason)


def check_not_owned_by_survey(connection: Connection, id: FlagId, attr: str) -> None:
    """Raise Invalid if the flag belongs to a survey."""
    if (name := _find_survey_name(connection, id)) is not None:
        raise Invalid(
            f"This flag belongs to the survey {truncate(name)!r}, which controls it. "
            "Choose another flag.",
            attr=attr,
        )


def _check_no_running_plan(connection: Connection, flag: Flag) -> None:
    """The evidence of a plan or a bandit is about the key that SDKs report."""
    is_running = rollout_plans.c.state == PlanState.RUNNING.value
    own = select(rollout_plans.c.id).where((rollout_plans.c.flag_id == flag.id) & is_running)
    if (id := connection.execute(own.limit(1)).scalar()) is not None:
        detail = f"The key cannot change while the rollout plan {id} is running. Pause it first."
        raise Invalid(detail, attr="key")
    is_running = bandits.c.state == BanditState.RUNNING.value
    own = select(bandits.c.id).where((bandits.c.flag_id == flag.id) & is_running)
    if (id := connection.execute(own.limit(1)).scalar()) is not None:
        detail = f"The key cannot change while the bandit {id} is running. Pause it first."
        raise Invalid(detail, attr="key")


def find_running_experiment(connection: Connection, id: FlagId) -> str:
    """Return what runs on the variants of a flag, "" for no experiment."""
    own = select(experiments.c.name).where((experiments.c.flag_id == id) & RUNNING)
    name: str | None = connection.execute(own.limit(1)).scalar()
    return "" if name is None else f"The experiment {truncate(name)!r}"


def find_active_plan(connection: Connection, id: FlagId) -> str:
    states = [state.value for state in PlanState if state.is_active]
    own = rollout_plans.c.state.in_(states) & (rollout_plans.c.flag_id == id)
    found = connection.execute(select(rollout_plans.c.id).where(own).limit(1)).scalar()
    return "" if found is None else f"The rollout plan {found}"


def find_active_bandit(connection: Connection, id: FlagId) -> str:
    states = [state.value for state in BanditState if state.is_active]
    own = bandits.c.state.in_(states) & (bandits.c.flag_id == id)
    found = connection.execute(select(bandits.c.id).where(own).limit(1)).scalar()
    return "" if found is None else f"The bandit {found}"


def check_no_active_bandit(connection: Connection, id: FlagId) -> None:
    """Raise Invalid if an experiment would begin whose variants a bandit moves."""
    if found := find_active_bandit(connection, id):
        raise Invalid(f"{found} moves people between the variants of this flag. Stop it first.")


def _check_deletable(connection: Connection, flag: Flag) -> None:
    """Raise Invalid if a feature or a survey owns the flag: delete the owner first."""
    for kind, name in (
        (FEATURE, _find_feature_name(connection, flag.id)),
        (SURVEY, _find_survey_name(connection, flag.id)),
    ):
        if name is not None:
            raise Invalid(f"Cannot be deleted: {_describe_owner(kind, name)}")


def _describe_owner(kind: str, name: str) -> str:
    return f"it belongs to the {kind} {truncate(name)!r}. Delete the {kind} first."


def _check_not_owned_by_feature(connection: Connection, flag: Flag, reason: str) -> None:
    if (name := _find_feature_name(connection, flag.id)) is not None:
        raise Invalid(f"{reason} This flag belongs to {truncate(name)!r}.", attr="filters")


def _find_feature_name(connection: Connection, id: FlagId) -> str | None:
    """Return the name of the early access feature that owns the flag."""
    own = select(early_access_features.c.name).where(early_access_features.c.flag_id == id)
    name: str | None = connection.execute(own).scalar()
    return name


def _find_survey_name(connection: Connection, id: FlagId) -> str | None:
    """Return the name of the survey that owns the flag."""
    own = select(surveys.c.name).where(
        (surveys.c.internal_targeting_flag_id == id) | (surveys.c.targeting_flag_id == id)
    )
    name: str | None = connection.execute(own.limit(1)).scalar()
    return name
