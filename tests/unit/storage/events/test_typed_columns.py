"""Which properties are in which column."""

import hashlib

import pytest

from hedgerow.hogql.typed_properties import (
    EVENT_PROPERTIES,
    PERSON_PROPERTIES,
    TYPED_PROPERTIES,
    PropertyColumns,
)
from hedgerow.ingestion.persons import enrich
from hedgerow.storage.events.typed_columns import build_column_ddl


@pytest.mark.parametrize("columns", TYPED_PROPERTIES.values())
def test_a_property_is_in_one_column(columns: PropertyColumns) -> None:
    listed = [*columns.common_keys, *columns.text_keys]
    assert len(set(listed)) == len(listed)
    # They are written into SQL as they are.
    assert all(key.replace("$", "").replace("_", "").isalnum() for key in listed)


def test_what_enrichment_adds_to_every_event_is_not_in_the_json_column() -> None:
    """A value there costs an insert twenty times as much as one in a column of its own."""
    of_person = {*PERSON_PROPERTIES.common_keys, *PERSON_PROPERTIES.text_keys}
    of_event = {*EVENT_PROPERTIES.common_keys, *EVENT_PROPERTIES.text_keys}
    copied = {name: enrich.COPIED_PROPERTIES[name] for name in enrich._DEVICE}
    for name, initial in (copied | enrich._INITIAL_LOCATION).items():
        assert {name, initial} <= of_person
    assert set(enrich._LOCATION) <= of_event


def test_the_definitions_are_pinned() -> None:
    """Tables keep the columns that they have. Changed ones need other names, which the move fills,
    and `DROP COLUMN` for those that they replace."""
    digest = hashlib.sha256("\n".join(build_column_ddl()).encode()).hexdigest()
    assert digest[:16] == "ea2252cde214d8d7"
