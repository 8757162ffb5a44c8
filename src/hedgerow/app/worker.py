"""The worker: the chores behind the requests, in a process that answers none. For installations of
several processes.
"""

from collections.abc import Callable

from hedgerow.app.capture import join_deletion, join_intake
from hedgerow.app.chores import working_chores
from hedgerow.app.events import OpenedWhenNeeded, event_place
from hedgerow.app.mirror import join_mirror
from hedgerow.app.state import join_state, place_of
from hedgerow.app.waiting import once_available
from hedgerow.errors import Unavailable
from hedgerow.settings import Settings
from hedgerow.storage.connect import Place, open_database
from hedgerow.storage.geoip import GeoIp
from hedgerow.storage.schema import schema_state
from hedgerow.worker import work


async def run_worker(settings: Settings, ready: Callable[[], None]) -> None:
    """Keep up with the chores until cancelled."""
    place = place_of(settings)
    geoip = GeoIp(settings.geoip_file)
    database = open_database(place)
    events = OpenedWhenNeeded(event_place(settings))
    intake = join_intake(settings, database, events, geoip)
    try:
        await once_available(lambda: _check_current(place), "migrations", lambda _: None)
        ready()
        deletion = join_deletion(database, events, intake.arrivals)
        mirror = join_mirror(database, events)
        await work(working_chores(join_state(database), intake, deletion, mirror))
    finally:
        await intake.processor.end()
        await events.close()
        await database.close()


def _check_current(place: Place) -> None:
    """Migrating is left to those who serve: the first of them has keys to show."""
    if not schema_state(place).is_current:
        raise Unavailable(
            "The database lacks migration steps: `hedgerow serve` or `hedgerow migrate` runs them."
        )
