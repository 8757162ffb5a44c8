"""What the commands of the CLI open: stores and services, without the rest of the service.

A module is imported when it is first used. `hedgerow keys list` does not load the flag engine, and
`hedgerow keys list --help` loads no database driver.
"""

from types import ModuleType
from typing import TYPE_CHECKING

from hedgerow.lib.garbage import import_without_gc

if TYPE_CHECKING:
    from hedgerow.app.commands import backup as backup
    from hedgerow.app.commands import dashboards as dashboards
    from hedgerow.app.commands import dead_letters as dead_letters
    from hedgerow.app.commands import definitions as definitions
    from hedgerow.app.commands import doctor as doctor
    from hedgerow.app.commands import doctor_checks as doctor_checks
    from hedgerow.app.commands import events as events
    from hedgerow.app.commands import flag_history as flag_history
    from hedgerow.app.commands import flags as flags
    from hedgerow.app.commands import imports as imports
    from hedgerow.app.commands import installation as installation
    from hedgerow.app.commands import mail as mail
    from hedgerow.app.commands import people as people
    from hedgerow.app.commands import pipelines as pipelines
    from hedgerow.app.commands import queries as queries
    from hedgerow.app.commands import state as state


def __getattr__(name: str) -> ModuleType:
    try:
        return import_without_gc(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
