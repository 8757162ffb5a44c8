"""The entry point of the `hedgerow` command."""

import sys
from collections.abc import Callable

import typer

from hedgerow import __version__
from hedgerow.cli.commands import RootGroup
from hedgerow.errors import AppError, NotFound, OperatorError
from hedgerow.lib.optional_packages import MissingPackage, name_missing_extra
from hedgerow.lib.text import escape_control_characters
from hedgerow.lib.tokens import redact_secrets
from hedgerow.settings import SettingError

# As `ServiceNotFound`: a missing object is the same on a service and on the database.
NOT_FOUND_STATUS = 4

app = typer.Typer(
    name="hedgerow",
    cls=RootGroup,
    pretty_exceptions_enable=False,
    # Plain help: rendering it with rich would take 0.2 s of CPU.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="""Self-hosted feature flags, events and pipelines, compatible with PostHog's API.

First time? `hedgerow serve` creates a database in ./hedgerow-data, prints your keys once and
listens on http://127.0.0.1:8000. The API documentation is at /api/docs/.

Every setting is an environment variable: `hedgerow settings` lists them with their values. Set
HEDGEROW_DATABASE_URL=postgresql://… to keep the state in PostgreSQL.""",
    epilog="Something wrong? `hedgerow doctor` checks the installation and says what to fix.",
)


def _show_version(is_requested: bool) -> None:
    if is_requested:
        print(f"hedgerow {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    pass


def main() -> None:
    """Run a command."""
    run_reporting_errors(app)


def run_reporting_errors(run: Callable[[], object]) -> None:
    """An expected failure prints one line on stderr, and exits with status 1 or the status of its
    error."""
    try:
        with name_missing_extra():
            run()
    except (AppError, SettingError, OperatorError, MissingPackage) as error:
        field = f"{error.attr}: " if isinstance(error, AppError) and error.attr else ""
        # The text may come from another service, so secrets and line breaks are removed.
        print(
            escape_control_characters(f"hedgerow: {field}{redact_secrets(str(error))}"),
            file=sys.stderr,
        )
        missing = isinstance(error, NotFound)
        sys.exit(NOT_FOUND_STATUS if missing else getattr(error, "exit_status", 1))
