"""The copies of persons, groups and cohorts beside the events, joined with both stores."""

from hedgerow.app.events import OpenedWhenNeeded
from hedgerow.persons.mirror import Mirror
from hedgerow.storage.database import Database
from hedgerow.storage.mirror_queue import MirrorQueueRecords
from hedgerow.storage.person_mirror import PersonTables
from hedgerow.worker import Chore

COPY_EVERY_S = 1.0
MAX_PAUSE_S = 5.0


def join_mirror(database: Database, events: OpenedWhenNeeded) -> Mirror:
    tables = PersonTables(events.opened, lambda: events.is_open)
    return Mirror(MirrorQueueRecords(database), tables)


def mirror_chore(mirror: Mirror) -> Chore:
    return Chore(
        name="copy persons beside the events",
        every_s=COPY_EVERY_S,
        run=mirror.keep_up,
        max_pause_s=MAX_PAUSE_S,
    )
