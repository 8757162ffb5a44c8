"""The `hedgerow` command. One file per verb; errors are printed as one sentence that says what to
do.
"""

import sys

import typer

from hedgerow import __version__
from hedgerow.cli.verbs import MARKUP, Verbs
from hedgerow.errors import AppError, Unready
from hedgerow.lib.text import on_one_line
from hedgerow.lib.tokens import without_secrets
from hedgerow.settings import SettingError

app = typer.Typer(
    name="hedgerow",
    cls=Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=MARKUP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="""Self-hosted feature flags, events and pipelines that speak PostHog's wire contract.

**First time here?** `hedgerow serve` makes a database in ./hedgerow-data, prints your keys once and
starts on http://127.0.0.1:8000. The API's documentation is at /api/docs/ there.

Every setting is an environment variable: `hedgerow settings` lists them with their values.
Set HEDGEROW_DATABASE_URL=postgresql://… to keep the state in PostgreSQL.""",
    epilog="Something odd? `hedgerow doctor` looks at the installation and says what is wrong.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"hedgerow {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    pass


def main() -> None:
    """Run a verb. A foreseen failure is one line on stderr and exit status 1."""
    try:
        app()
    except (AppError, SettingError, Unready) as error:
        place = f"{error.attr}: " if isinstance(error, AppError) and error.attr else ""
        # Another service may have worded it, and the terminal is not its to write on.
        print(on_one_line(f"hedgerow: {place}{without_secrets(str(error))}"), file=sys.stderr)
        sys.exit(1)
