"""The cursor of a page of persons: the last person of the page before, or the first one of the page
after, and the number of persons on all pages. Every page takes the same time.
"""

import re
from dataclasses import dataclass

from hedgerow.errors import Invalid
from hedgerow.persons.model import PersonId

_PATTERN = re.compile(r"(older|newer)_(\d{1,18})_(\d{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonCursor:
    """`count` is the one of the first page: persons are not counted again for each page."""

    is_older: bool
    person_id: PersonId
    count: int

    def encode(self) -> str:
        return f"{'older' if self.is_older else 'newer'}_{self.person_id}_{self.count}"

    @property
    def older_than(self) -> PersonId | None:
        return self.person_id if self.is_older else None

    @property
    def newer_than(self) -> PersonId | None:
        return None if self.is_older else self.person_id


def parse_person_cursor(text: str) -> PersonCursor:
    found = _PATTERN.fullmatch(text)
    if found is None:
        detail = "Invalid cursor. Use the value from the `next` link of a response."
        raise Invalid(detail, attr="cursor")
    return PersonCursor(
        is_older=found[1] == "older", person_id=PersonId(int(found[2])), count=int(found[3])
    )
