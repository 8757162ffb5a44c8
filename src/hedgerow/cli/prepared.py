"""The settings of a verb that works on an installation, once it is sure that there is one."""

from pathlib import Path

from hedgerow.app.state import ensure_data_folder, place_of
from hedgerow.cli.options import command, settings_with
from hedgerow.errors import Unready
from hedgerow.settings import Settings
from hedgerow.storage.schema import schema_state


def prepared_settings(data: Path | None) -> Settings:
    """Settings for a verb that needs an installation; Unready says how to make one."""
    settings = settings_with(data=data)
    check_prepared(settings)
    return settings


def check_prepared(settings: Settings) -> None:
    place = place_of(settings)
    if place.is_sqlite and not place.path.exists():
        raise Unready(
            f"There is no Hedgerow in {settings.data} yet. "
            f"Make one with `{command('init', settings)}`, or name another folder with --data."
        )
    if place.is_sqlite:
        ensure_data_folder(settings.data)
    state = schema_state(place)
    if not state.is_current:
        raise Unready(
            f"The database lacks {len(state.pending)} migration step(s). "
            f"Run `{command('migrate', settings)}` first."
        )
