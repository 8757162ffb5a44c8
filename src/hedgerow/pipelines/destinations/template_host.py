"""The worker process that renders templates. template_workers.py starts it with `python -m`."""

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec

from hedgerow.lib import jsonio
from hedgerow.lib.workers.process import serve_requests
from hedgerow.pipelines.destinations.template_workers import (
    MAX_CPU_S,
    RenderRequest,
    RenderResponse,
)
from hedgerow.plugin.template_budget import FULL_LIMITS, TemplateBudgetExceeded, TemplateError
from hedgerow.plugin.templates import compile_template, parse_template

_decode = msgspec.json.Decoder(RenderRequest).decode


def handle(body: bytes) -> bytes:
    began = time.process_time()
    request = _decode(body)
    value: Any = None
    error = ""
    try:
        # A killed process takes longer to replace than most templates to render.
        signal.setitimer(signal.ITIMER_VIRTUAL, MAX_CPU_S)
        try:
            template = parse_template(request.template.encode())
            value = template.render_here(request.payload, FULL_LIMITS)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except TemplateError as reason:
        error = str(reason)
    cpu_s = time.process_time() - began
    return jsonio.encode(RenderResponse(value=value, error=error, cpu_s=cpu_s))


def _end_rendering(number: int, frame: FrameType | None) -> None:
    raise TemplateBudgetExceeded(f"The template took longer than {MAX_CPU_S:g} s.")


def build_handler() -> Callable[[bytes], bytes]:
    signal.signal(signal.SIGVTALRM, _end_rendering)
    compile_template("{{ event.event }}")  # loads Liquid
    return handle


if __name__ == "__main__":
    serve_requests(build_handler)
