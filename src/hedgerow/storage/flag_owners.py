"""Whose a flag is: an early access feature's, or that of the survey which made it. What these
cannot do without stays as they need it.
"""

from collections.abc import Mapping

from sqlalchemy import Connection, select

from hedgerow.errors import Invalid
from hedgerow.flags.early_access import why_unfit
from hedgerow.flags.model import Flag, FlagId
from hedgerow.lib.text import cut_short
from hedgerow.projects.model import ProjectId
from hedgerow.storage.flag_experiments import RUNNING
from hedgerow.storage.tables import early_access_features, experiments, surveys

FEATURE = "early access feature"
SURVEY = "survey"


def reasons_to_keep(connection: Connection, project_id: ProjectId) -> Mapping[FlagId, str]:
    """Of the flags that experiments run on, and of those that belong to features and surveys."""
    running = select(experiments.c.flag_id, experiments.c.name).where(
        (experiments.c.project_id == project_id) & RUNNING
    )
    tried = {
        FlagId(id): f"the experiment {cut_short(name)!r} runs on it. End that first."
        for id, name in connection.execute(running)
    }
    return tried | {
        FlagId(id): _reason(kind, name)
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


def check_none_disturbed(connection: Connection, before: Flag | None, after: Flag) -> None:
    """Invalid if a feature or a survey would lose its flag, or could no longer use it."""
    if after.deleted:
        _check_nobodys(connection, after)
    if before is None:
        return
    if after.key != before.key and (name := _survey_of(connection, after.id)) is not None:
        raise Invalid(
            f"The key cannot change: the flag belongs to the survey {cut_short(name)!r}.",
            attr="key",
        )
    # One that was unfit already can still be changed, or nobody could mend it.
    if (reason := why_unfit(after)) and not why_unfit(before):
        _check_no_features(connection, after, reason)


def check_no_surveys(connection: Connection, id: FlagId, attr: str) -> None:
    """Invalid, for who wants to take over the flag, if it is a survey's."""
    if (name := _survey_of(connection, id)) is not None:
        raise Invalid(
            f"This flag belongs to the survey {cut_short(name)!r}, which switches it by itself. "
            "Choose another one.",
            attr=attr,
        )


def _check_nobodys(connection: Connection, flag: Flag) -> None:
    """What a feature or a survey cannot do without goes with it, not before."""
    for kind, name in (
        (FEATURE, _feature_of(connection, flag.id)),
        (SURVEY, _survey_of(connection, flag.id)),
    ):
        if name is not None:
            raise Invalid(f"Cannot be deleted: {_reason(kind, name)}")


def _reason(kind: str, name: str) -> str:
    return f"it belongs to the {kind} {cut_short(name)!r}. Delete that first."


def _check_no_features(connection: Connection, flag: Flag, reason: str) -> None:
    if (name := _feature_of(connection, flag.id)) is not None:
        raise Invalid(f"{reason} This flag belongs to {cut_short(name)!r}.", attr="filters")


def _feature_of(connection: Connection, id: FlagId) -> str | None:
    """The name of the early access feature that a flag belongs to."""
    own = select(early_access_features.c.name).where(early_access_features.c.flag_id == id)
    name: str | None = connection.execute(own).scalar()
    return name


def _survey_of(connection: Connection, id: FlagId) -> str | None:
    """The name of the survey that a flag belongs to."""
    own = select(surveys.c.name).where(
        (surveys.c.internal_targeting_flag_id == id) | (surveys.c.targeting_flag_id == id)
    )
    name: str | None = connection.execute(own.limit(1)).scalar()
    return name
