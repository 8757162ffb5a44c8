"""`--break-glass`: a command changes flags without the approvals that they require."""

from contextlib import AbstractContextManager
from typing import Annotated

import typer

from hedgerow.flags.approvals.permit import break_glass, build_break_glass
from hedgerow.projects.activity import COMMAND_LINE

BreakGlassOption = Annotated[
    str | None,
    typer.Option(
        "--break-glass",
        metavar="REASON",
        help="Apply changes without the approvals that they require. Recorded.",
    ),
]


def build_headers(reason: str | None) -> dict[str, str]:
    """Return the headers of a request that breaks the glass."""
    return {} if reason is None else {"X-Break-Glass": reason.encode().decode("latin-1")}


def break_glass_for(reason: str | None) -> AbstractContextManager[None]:
    """Raises Invalid for a reason that says nothing."""
    return break_glass(None if reason is None else build_break_glass(reason, COMMAND_LINE))
