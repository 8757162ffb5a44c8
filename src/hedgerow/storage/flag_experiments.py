"""Which experiments a flag has. While one runs, its flag stays as people have seen it."""

from sqlalchemy import Connection, select

from hedgerow.errors import Invalid
from hedgerow.experiments.model import Status
from hedgerow.experiments.variants import are_alike, group_type_of, holdouts_of
from hedgerow.flags.model import Flag
from hedgerow.flags.rules import variants_of
from hedgerow.lib import jsonio
from hedgerow.lib.text import cut_short
from hedgerow.storage.tables import experiments as table

OF_STATUS = {
    Status.DRAFT: table.c.start_date.is_(None),
    Status.RUNNING: table.c.start_date.is_not(None) & table.c.end_date.is_(None),
    Status.STOPPED: table.c.start_date.is_not(None) & table.c.end_date.is_not(None),
}
RUNNING = table.c.deleted.is_(False) & OF_STATUS[Status.RUNNING]


def check_none_disturbed(connection: Connection, before: Flag | None, after: Flag) -> None:
    """Invalid if a running experiment would lose its flag, or could no longer tell what people saw
    before from what they see then."""
    is_deleted = after.deleted and not (before is not None and before.deleted)
    changed = None if before is None else _disturbing(before, after)
    if not is_deleted and changed is None:
        return
    named = select(table.c.name).where((table.c.flag_id == after.id) & RUNNING).limit(1)
    name = connection.execute(named).scalar()
    if name is None:
        return
    if is_deleted:
        raise Invalid(
            f"Cannot be deleted: the experiment {cut_short(name)!r} runs on it. End that first."
        )
    assert changed is not None
    what, attr = changed
    raise Invalid(
        f"{what} cannot change while the experiment {cut_short(name)!r} runs. End that first.",
        attr=attr,
    )


def _disturbing(before: Flag, after: Flag) -> tuple[str, str] | None:
    """What changes of that by which people are counted, and where it stands in the flag."""
    if not are_alike(variants_of(before.filters), variants_of(after.filters)):
        return "Variants", "filters.multivariate.variants"
    if before.key != after.key:
        return "The key", "key"
    if group_type_of(before) != group_type_of(after):
        return "Who is counted", "filters.aggregation_group_type_index"
    if before.bucketing_identifier is not after.bucketing_identifier:
        return "By what people are bucketed", "bucketing_identifier"
    if not jsonio.same(holdouts_of(before), holdouts_of(after)):
        return "The holdout", "filters.holdout"
    if after.is_remote_configuration and not before.is_remote_configuration:
        return "What kind of flag it is", "is_remote_configuration"
    return None
