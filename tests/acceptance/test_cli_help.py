"""Help is worth reading: every verb says what it does and what each of its options means."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hedgerow.cli import app
from hedgerow.cli.verbs import VERBS, loaded
from tests.live import run_hedgerow

WORDS = {
    "": ("--version", "hedgerow serve", "hedgerow settings", "hedgerow doctor"),
    "serve": ("--host", "--port", "--data", "--no-worker", "Ctrl-C", "HEDGEROW_PORT"),
    "worker": (
        "--data",
        "--metrics-port",
        "--metrics-host",
        "PostgreSQL and ClickHouse",
        "hedgerow serve --no-worker",
    ),
    "init": ("--data", "--json", "Safe to repeat"),
    "keys": ("create", "list", "revoke", "roll"),
    "keys create": ("--label", "--scope", "--project", "--json", "Example: hedgerow keys create"),
    "keys list": ("--json", "without their values"),
    "keys revoke": ("id or label", "within a second"),
    "keys roll": ("id or label", "--json", "this once"),
    "projects": ("create", "list", "secret"),
    "projects create": ("--timezone", "--json"),
    "projects list": ("--json",),
    "projects secret": ("--new", "--end-previous", "--json"),
    "settings": ("--json", "HEDGEROW_PORT=9000 hedgerow serve"),
    "migrate": ("--check", "exit status 1"),
    "components": ("--json", "plugin"),
    "pipelines": ("export", "apply", "reseal"),
    "pipelines export": ("--project", "--output", "!env NAME"),
    "pipelines apply": ("--project", "--yes", "--check", "--prune", "- for the standard input"),
    "pipelines reseal": ("newest sealing key",),
    "flags": ("evaluate", "export", "apply"),
    "flags evaluate": ("--property", "--group", "--group-property", "--json", "- for all flags"),
    "flags export": ("--project", "--output", "by name"),
    "flags apply": ("--project", "--yes", "--check", "--prune", "- for the standard input"),
    "experiments": ("list", "results"),
    "experiments list": (
        "--status",
        "--archived",
        "--json",
        "experiment:read",
        "Example: hedgerow",
    ),
    "experiments results": ("--refresh", "--json", "experiment:read", "Example: hedgerow"),
    "import": ("files", "posthog", "unleash", "flagsmith"),
    "import files": [
        "FILE",
        "--map",
        "--format",
        "--rest",
        "--dry-run",
        "--from-line",
        "--key",
        "--server",
    ],
    "import posthog": (
        "--host",
        "--personal-key",
        "POSTHOG_PERSONAL_API_KEY",
        "--persons",
        "--events",
        "--since",
        "--dry-run",
        "--overwrite",
        "--state",
        "--into",
        "goes on where it was",
        "Example: hedgerow import posthog",
    ),
    "import unleash": ("{file}", "--environment", "--dry-run", "Percentages hold"),
    "import flagsmith": ("{file}", "--overwrite", "--into", "Percentages hold"),
    "query": ("--format", "--project", "--server", "--key", "Example: hedgerow query"),
    "events": ("tail", "export", "delete"),
    "events tail": ("--event", "--last", "--json", "Ctrl-C"),
    "events export": ("--format", "--after", "--before", "--events-per-file", "stopped", "key"),
    "events delete": ("--uuid", "--person", "--event", "--before", "--project", "--yes", "audit"),
    "backup": ("{folder}", "--data", "while the service runs"),
    "restore": ("{folder}", "--data", "hedgerow backup"),
    "doctor": ("Exit status 0",),
}


def _page(verb: str) -> str:
    """The help of a verb, without a process of its own: so many of them would take long."""
    shown = CliRunner().invoke(app, [*verb.split(), "--help"], prog_name="hedgerow")
    assert shown.exit_code == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.output)


def test_the_program_shows_the_same_page_and_exits_0() -> None:
    done = run_hedgerow("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == _page("").split()


@pytest.mark.parametrize("verb", WORDS)
def test_help_of_a_verb_names_its_options(verb: str) -> None:
    text = re.sub(r"[\s│]+", " ", _page(verb))
    assert text.startswith(f" Usage: {f'hedgerow {verb}'.strip()} ")
    assert [word for word in WORDS[verb] if word not in text] == []


@pytest.mark.parametrize("verb", WORDS)
def test_no_option_is_left_without_a_word_about_it(verb: str) -> None:
    rows = re.findall(r"^│[* ]+--.*│$", _page(verb), re.MULTILINE)
    assert rows
    assert [row for row in rows if not re.search(r"  [A-Z]", row)] == []


def test_the_first_page_lists_every_verb_with_what_it_does() -> None:
    listed = dict(re.findall(r"^│ ([a-z]+) +([A-Z].+?) *│$", _page(""), re.MULTILINE))
    assert set(listed) == {verb.split()[0] for verb in WORDS if verb}


@pytest.mark.parametrize("verb", VERBS)
def test_the_line_on_the_first_page_is_the_first_of_the_verbs_own(verb: str) -> None:
    own_help = loaded(verb).help
    assert own_help
    assert own_help.splitlines()[0] == VERBS[verb]


def modules_of(*arguments: str) -> set[str]:
    """What a call of the command has loaded when it ends."""
    loads = (
        "import sys, hedgerow.cli\n"
        "try: hedgerow.cli.main()\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", loads, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout
    return set(done.stderr.split())


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_the_first_page_and_the_version_need_no_verb(option: str) -> None:
    heavy = {"hedgerow.cli.serve", "hedgerow.app", "fastapi", "sqlalchemy", "alembic"}
    assert heavy.isdisjoint(modules_of(option))


def test_a_verb_that_opens_no_events_does_not_wait_for_their_engine(tmp_path: Path) -> None:
    heavy = {"chdb", "clickhouse_connect", "numpy"}
    assert heavy.isdisjoint(modules_of("init", "--data", str(tmp_path)))


def test_a_service_that_sends_nothing_does_not_wait_for_the_client() -> None:
    assert "aiohttp" not in modules_of("serve", "--help")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("hedgerow ke", ["keys"]),
        ("hedgerow keys re", ["revoke"]),
        ("hedgerow serve --p", ["--port"]),
    ],
)
def test_a_shell_completes_verbs_and_their_options(typed: str, offered: list[str]) -> None:
    asked = {
        "_HEDGEROW_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
    }
    shown = CliRunner().invoke(app, [], prog_name="hedgerow", env=asked)
    assert shown.output.split() == offered
