"""The worker process of the sandbox. sandbox.py starts it with `python -m`."""

from collections.abc import Callable

import msgspec

from hedgerow.lib.workers.process import serve_requests
from hedgerow.pipelines.catalogue import find_entry_points, load_components
from hedgerow.pipelines.transformations.chain import describe_failure, fail_always, guard_transform
from hedgerow.pipelines.transformations.sandbox import SandboxRequest, SandboxResponse
from hedgerow.plugin.component import Component
from hedgerow.plugin.transform import Transform

# Transformations of edited or previewed records are never used again, so the oldest are dropped.
MAX_TRANSFORMS = 200

_decode = msgspec.json.Decoder(SandboxRequest).decode
_encode = msgspec.json.Encoder().encode


class SandboxHost:
    """Prepares transformations, keeps them by number, and applies them."""

    def __init__(self, components: dict[str, Component]) -> None:
        self._components = components
        self._transforms: dict[int, Transform] = {}

    def handle(self, body: bytes) -> bytes:
        request = _decode(body)
        if request.event is None:
            self._transforms[request.number] = self._build_transform(request)
            if len(self._transforms) > MAX_TRANSFORMS:
                del self._transforms[next(iter(self._transforms))]
            return _encode(SandboxResponse(outcome="same"))
        transform = self._transforms.pop(request.number, None)
        if transform is None:
            return _encode(SandboxResponse(outcome="unknown"))
        # Inserted at the end again, so that the least recently used is first.
        self._transforms[request.number] = transform
        try:
            after = transform(request.event)
        except BaseException as error:  # noqa: BLE001 - a package may raise anything
            return _encode(SandboxResponse(outcome="failed", reason=describe_failure(error)))
        if after is None:
            return _encode(SandboxResponse(outcome="dropped"))
        if after is request.event:
            return _encode(SandboxResponse(outcome="same"))
        return _encode(
            SandboxResponse(outcome="changed", event=after.event, properties=after.properties)
        )

    def _build_transform(self, request: SandboxRequest) -> Transform:
        component = self._components.get(request.key)
        if component is None or component.transform is None:
            return fail_always("The component is not installed")
        try:
            return guard_transform(component.transform(request.settings or {}))
        except BaseException as error:  # noqa: BLE001 - a package may raise anything
            return fail_always(describe_failure(error))


def build_handler() -> Callable[[bytes], bytes]:
    components, _ = load_components(find_entry_points())
    return SandboxHost({component.key: component for component in components}).handle


if __name__ == "__main__":
    serve_requests(build_handler)
