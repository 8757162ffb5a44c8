"""Which experiments a flag has. While one runs, its flag stays, and so do its variants."""

from sqlalchemy import Connection, select

from hedgerow.errors import Invalid
from hedgerow.flags.model import Flag
from hedgerow.flags.rules import variants_of
from hedgerow.kit.text import cut_short
from hedgerow.storage.tables import experiments as table

_running = table.c.deleted.is_(False) & table.c.start_date.is_not(None) & table.c.end_date.is_(None)


def check_none_disturbed(connection: Connection, before: Flag | None, after: Flag) -> None:
    """Invalid if a running experiment would lose its flag or its variants."""
    is_deleted = after.deleted and not (before is not None and before.deleted)
    are_changed = before is not None and _split(before) != _split(after)
    if not is_deleted and not are_changed:
        return
    named = select(table.c.name).where((table.c.flag_id == after.id) & _running).limit(1)
    name = connection.execute(named).scalar()
    if name is None:
        return
    if is_deleted:
        raise Invalid(
            f"Cannot be deleted: the experiment {cut_short(name)!r} runs on it. End that first."
        )
    raise Invalid(
        f"Variants cannot change while the experiment {cut_short(name)!r} runs. End that first.",
        attr="filters.multivariate.variants",
    )


def _split(flag: Flag) -> list[tuple[object, object]]:
    variants = variants_of(flag.filters)
    return [(each.get("key"), each.get("rollout_percentage")) for each in variants]
