"""Report fields of a source that Hedgerow does not know. Pure.

An import leaves them out, and its plan names each of them: without a field that restricts it, an
item may apply to more people than at the source.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from hedgerow.lib.shape import AnyShape, Shape, find_unknown_fields, remove_unknown_fields

# Values of a field that is not in use.
_UNSET: tuple[Any, ...] = (None, False, "", [], {})


def strip_unknown_fields(
    value: Any, shape: AnyShape, place: str, note: Callable[[str], None]
) -> Any:
    """Return a document without its unknown fields, after a note about each that has a value."""
    note_unknown_fields(value, shape, place, note)
    return remove_unknown_fields(value, shape)


def note_unknown_fields(
    value: Any, shape: AnyShape, place: str, note: Callable[[str], None]
) -> None:
    for found in find_unknown_fields(value, shape, place):
        if found.value not in _UNSET:
            note(f"Imported without {found.path}, which Hedgerow does not know.")


def note_unknown_names(
    item: Mapping[str, Any], known: Collection[str], note: Callable[[str], None]
) -> None:
    """Note the unknown fields of an item, without those inside its fields."""
    note_unknown_fields(item, Shape(*known), "", note)
