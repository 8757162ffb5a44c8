"""Large batches in pieces: the worker process parses, packs and frees one piece after another, so
that its memory depends on the size of the batch only, not on how many values it holds.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from hedgerow.ingestion.model import EventRejection, PackedBatch
from hedgerow.ingestion.parsing.request import MAX_WARNINGS
from hedgerow.projects.project_token import find_project_token

PIECE_BYTES = 4 << 20
MAX_REPORTED_REJECTIONS = 1000

_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_value = msgspec.json.Decoder().decode


class EncodedItems(list[msgspec.Raw]):
    """The items of a batch, each as JSON."""

    def iter_pieces(self, parse: Callable[[bytes], Any]) -> Iterator[tuple[int, Sequence[Any]]]:
        """Yield the index of the first item of each piece, and the parsed items."""
        start = size = 0
        for end, item in enumerate(self, 1):
            size += len(item)
            if size > PIECE_BYTES or end == len(self):
                yield start, parse(b"[" + b",".join(self[start:end]) + b"]")
                start, size = end, 0


def decode_in_pieces(text: bytes, *, has_token: bool) -> dict[str, Any] | None:
    """Decode a large object with a batch, without the items of the batch. Returns None for other
    texts, and if the token is only in the items: they are parsed as a whole, which also reports
    errors."""
    if len(text) <= PIECE_BYTES:
        return None
    try:
        encoded = _decode_fields(text)
        items = EncodedItems(_decode_items(encoded.pop("batch")))
        fields = {name: _decode_value(value) for name, value in encoded.items()}
    except (ValueError, KeyError, RecursionError):
        return None
    has_token = has_token or bool(find_project_token(fields))
    return {**fields, "batch": items} if items and has_token else None


def join_batches(batches: Sequence[tuple[int, PackedBatch]]) -> PackedBatch:
    """Join the packed pieces of a batch, each with the index of its first item."""
    packed = [batch for _, batch in batches]
    rejected = [_move(each, start) for start, batch in batches for each in batch.rejected]
    return PackedBatch(
        token=packed[0].token,
        rows=[row for batch in packed for row in batch.rows],
        ids=[ids for batch in packed for ids in batch.ids],
        cookieless=[part for batch in packed for part in batch.cookieless],
        event_count=sum(batch.event_count for batch in packed),
        rejected=rejected[:MAX_REPORTED_REJECTIONS],
        rejected_count=sum(batch.rejected_count for batch in packed),
        # The last warning says how many were left out.
        warnings=[each for batch in packed for each in batch.warnings][: MAX_WARNINGS + 1],
        results={uuid: result for batch in packed for uuid, result in batch.results.items()},
    )


def _move(rejection: EventRejection, start: int) -> EventRejection:
    return msgspec.structs.replace(rejection, index=rejection.index + start)
