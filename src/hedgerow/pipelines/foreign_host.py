"""The process in which transformations of packages run: `python -m`, started by foreign.py."""

from collections.abc import Callable

import msgspec

from hedgerow.lib.apart import answering
from hedgerow.pipelines.catalogue import installed, load_components
from hedgerow.pipelines.component import Component
from hedgerow.pipelines.foreign import Answer, Question
from hedgerow.pipelines.transform import failing, guarded, reason_of
from hedgerow.pipelines.transforming import Transform

# So many are kept: those of records that were changed or tried out are not asked again.
KEPT = 200

_decode = msgspec.json.Decoder(Question).decode
_encode = msgspec.json.Encoder().encode


class Host:
    """Keeps the transformations that it was told of, by their numbers."""

    def __init__(self, components: dict[str, Component]) -> None:
        self._components = components
        self._made: dict[int, Transform] = {}

    def answer(self, asked: bytes) -> bytes:
        question = _decode(asked)
        if question.event is None:
            self._made[question.number] = self._transform(question)
            if len(self._made) > KEPT:
                del self._made[next(iter(self._made))]
            return _encode(Answer(outcome="same"))
        transform = self._made.pop(question.number, None)
        if transform is None:
            return _encode(Answer(outcome="unknown"))
        # At the end: those that nobody asks for come to stand at the beginning, and go.
        self._made[question.number] = transform
        try:
            after = transform(question.event)
        except BaseException as error:  # noqa: BLE001 - somebody else's code may raise anything
            return _encode(Answer(outcome="failed", reason=reason_of(error)))
        if after is None:
            return _encode(Answer(outcome="dropped"))
        if after is question.event:
            return _encode(Answer(outcome="same"))
        return _encode(Answer(outcome="changed", event=after.event, properties=after.properties))

    def _transform(self, question: Question) -> Transform:
        component = self._components.get(question.key)
        if component is None or component.transform is None:
            return failing("The component is not installed")
        try:
            return guarded(component.transform(question.settings or {}))
        except BaseException as error:  # noqa: BLE001 - somebody else's code may raise anything
            return failing(reason_of(error))


def host() -> Callable[[bytes], bytes]:
    found, _ = load_components(installed())
    return Host({component.key: component for component in found}).answer


if __name__ == "__main__":
    answering(host)
