"""Reading events, joined: the listing, values and queries, on one gate."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from hedgerow.app.events import OpenedWhenNeeded
from hedgerow.events.gate import Gate
from hedgerow.events.listing import Listing
from hedgerow.events.reading import Arrived, Reading
from hedgerow.events.selecting import Selecting
from hedgerow.events.values import Values
from hedgerow.lib.clock import utc_now
from hedgerow.queries.cache import Freshness
from hedgerow.queries.events_query import EventsQueries
from hedgerow.queries.hogql_query import HogQLQueries
from hedgerow.queries.queries import Queries
from hedgerow.storage.cohorts import CohortRecords
from hedgerow.storage.database import Database
from hedgerow.storage.event_persons import EventPersonRecords
from hedgerow.storage.event_reading import EventQueries
from hedgerow.storage.persons import PersonRecords

# How long an answer is good if nothing changes: what a query says of now grows old.
ALONE = timedelta(seconds=60)
# Others change things, too, and we do not see it.
AMONG_OTHERS = timedelta(seconds=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReading:
    """`reading` is the one way to rows, for whoever else has a query, and `freshness` and `state`
    tell how long their answers are good."""

    reading: Reading
    listing: Listing
    selecting: Selecting
    values: Values
    queries: Queries
    freshness: Freshness
    state: Callable[[], int]


def join_reading(
    database: Database, events: OpenedWhenNeeded, arrived: Arrived, mirrored: Arrived
) -> EventReading:
    is_alone = database.engine_name == "sqlite"
    reading = Reading(
        EventQueries(events.reached), CohortRecords(database), Gate(), arrived, mirrored
    )
    persons = PersonRecords(database)
    listing = Listing(reading, EventPersonRecords(database), persons)
    selecting = Selecting(reading, listing)
    freshness = Freshness(max_age=ALONE if is_alone else AMONG_OTHERS)

    def state() -> int:
        return database.stats().changes

    return EventReading(
        reading=reading,
        listing=listing,
        selecting=selecting,
        values=Values(reading),
        queries=Queries(
            HogQLQueries(reading),
            EventsQueries(selecting),
            freshness,
            state,
            reading.arrived,
            utc_now,
        ),
        freshness=freshness,
        state=state,
    )
