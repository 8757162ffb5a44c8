"""Experiments of a flag. While one is running, changes that would invalidate it are rejected."""

from sqlalchemy import Connection, select

from hedgerow.errors import Invalid
from hedgerow.experiments.model import ExperimentStatus
from hedgerow.experiments.variants import get_group_type, get_holdouts, has_same_split
from hedgerow.flags.model import Flag
from hedgerow.flags.validate import get_variants
from hedgerow.lib import jsonio
from hedgerow.lib.text import truncate
from hedgerow.storage.tables import experiments as table

STATUS_CONDITIONS = {
    ExperimentStatus.DRAFT: table.c.start_date.is_(None),
    ExperimentStatus.RUNNING: table.c.start_date.is_not(None) & table.c.end_date.is_(None),
    ExperimentStatus.STOPPED: table.c.start_date.is_not(None) & table.c.end_date.is_not(None),
}
RUNNING = table.c.deleted.is_(False) & STATUS_CONDITIONS[ExperimentStatus.RUNNING]


def check_experiments_unaffected(connection: Connection, before: Flag | None, after: Flag) -> None:
    """Raise Invalid if a running experiment would lose its flag or its results would become
    meaningless."""
    is_deleted = after.deleted and not (before is not None and before.deleted)
    changed = None if before is None else _find_breaking_change(before, after)
    if not is_deleted and changed is None:
        return
    named = select(table.c.name).where((table.c.flag_id == after.id) & RUNNING).limit(1)
    name = connection.execute(named).scalar()
    if name is None:
        return
    if is_deleted:
        raise Invalid(
            f"Cannot be deleted: the experiment {truncate(name)!r} is running on this flag. "
            "End the experiment first."
        )
    assert changed is not None
    what, attr = changed
    raise Invalid(
        f"{what} cannot change while the experiment {truncate(name)!r} is running. "
        "End the experiment first.",
        attr=attr,
    )


def _find_breaking_change(before: Flag, after: Flag) -> tuple[str, str] | None:
    """Return the first change that affects how people are counted, and its field in the flag."""
    if not has_same_split(get_variants(before.filters), get_variants(after.filters)):
        return "Variants", "filters.multivariate.variants"
    if before.key != after.key:
        return "The key", "key"
    if get_group_type(before) != get_group_type(after):
        return "The group type", "filters.aggregation_group_type_index"
    if before.bucketing_identifier is not after.bucketing_identifier:
        return "The bucketing identifier", "bucketing_identifier"
    if not jsonio.is_equal(get_holdouts(before), get_holdouts(after)):
        return "The holdout", "filters.holdout"
    if after.is_remote_configuration and not before.is_remote_configuration:
        return "The kind of flag", "is_remote_configuration"
    return None
