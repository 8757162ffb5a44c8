"""Reading events, joined: the listing and values, on one gate."""

from dataclasses import dataclass

from hedgerow.app.events import OpenedWhenNeeded
from hedgerow.events.gate import Gate
from hedgerow.events.listing import Listing
from hedgerow.events.reading import Arrived, Reading
from hedgerow.events.selecting import Selecting
from hedgerow.events.values import Values
from hedgerow.storage.cohorts import CohortRecords
from hedgerow.storage.database import Database
from hedgerow.storage.event_persons import EventPersonRecords
from hedgerow.storage.event_reading import EventQueries
from hedgerow.storage.persons import PersonRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReading:
    """`reading` is the one way to rows, for whoever else has a query."""

    reading: Reading
    listing: Listing
    selecting: Selecting
    values: Values


def join_reading(
    database: Database, events: OpenedWhenNeeded, arrived: Arrived, mirrored: Arrived
) -> EventReading:
    reading = Reading(
        EventQueries(events.reached), CohortRecords(database), Gate(), arrived, mirrored
    )
    persons = PersonRecords(database)
    listing = Listing(reading, EventPersonRecords(database), persons)
    return EventReading(
        reading=reading,
        listing=listing,
        selecting=Selecting(reading, listing),
        values=Values(reading),
    )
