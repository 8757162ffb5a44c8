"""Help names every command and option, and loads nothing that it does not need."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hedgerow.cli.commands import COMMANDS, CommandEntry, load_command, walk_commands
from hedgerow.cli.root import app
from tests.support.live import run_hedgerow, run_in_process

WORDS = {
    "": ("--version", "hedgerow serve", "hedgerow settings", "hedgerow doctor"),
    "serve": (
        "--host",
        "--port",
        "--data",
        "--no-worker",
        "--processes",
        "Ctrl-C",
        "HEDGEROW_PORT",
    ),
    "worker": (
        "--data",
        "--metrics-port",
        "--metrics-host",
        "PostgreSQL and ClickHouse",
        "hedgerow serve --no-worker",
    ),
    "edge": ("--from", "--host", "--port", "--data", "HEDGEROW_EDGE_KEYS", "HEDGEROW_SERVER_URL"),
    "edge-inbox": ("list", "retry", "discard"),
    "edge-inbox list": ("--data", "--json", "dead letters"),
    "edge-inbox retry": ("--data", "--json", "Fix the cause first"),
    "edge-inbox discard": ("--data", "--json", "--yes", "permanently"),
    "init": ("--data", "--json", "repeat it safely"),
    "login": ("--key", "--json", "readable by you only", "Example: hedgerow login"),
    "mcp": ("--server", "--key", "standard input and output", "Example: hedgerow mcp"),
    "logout": ("--json", "stays valid"),
    "keys": ("create", "list", "revoke", "roll"),
    "keys create": ("--label", "--scope", "--project", "--json", "Example: hedgerow keys create"),
    "keys list": ("--json", "without values"),
    "keys revoke": ("Id or label", "within a second", "--json"),
    "keys roll": ("Id or label", "--json", "once"),
    "users": ("list", "add", "invite", "role", "remove", "reset-password", "sessions", "roles"),
    "users list": ("--json", "with their roles"),
    "users add": ("--name", "--owner", "--role", "--password-stdin", "Example: hedgerow users add"),
    "users invite": ("--owner", "--role", "--json", "for 7 days"),
    "users role": ("--owner", "--member", "--role", "--no-role", "counts at once"),
    "users remove": ("--yes", "--json", "last owner"),
    "users reset-password": ("--password-stdin", "--json", "works until then"),
    "users sessions": ("--end", "--json", "within a second"),
    "users disable-totp": ("--json", "recovery codes"),
    "users setup-link": ("--json", "for 24 hours"),
    "users login-link": ("--json", "for 15 minutes", "Example: hedgerow users login-link"),
    "users disconnect": ("--json", "same verified email"),
    "mail": ("test",),
    "mail test": ("--json", "fails with the reason", "Example: hedgerow mail test"),
    "users roles": ("create", "list", "remove"),
    "users roles list": ("--json",),
    "users roles create": ("--scope", "--json", "Example: hedgerow users roles create"),
    "users roles remove": ("--json", "no person"),
    "projects": ("create", "delete", "list", "secret"),
    "projects create": ("--timezone", "--json"),
    "projects delete": ("--yes", "--json", "asks twice"),
    "projects list": ("--json",),
    "projects secret": ("--new", "--end-previous", "--json"),
    "settings": ("--json", "HEDGEROW_PORT=9000 hedgerow serve"),
    "migrate": ("--check", "status 1", "--json"),
    "demo": ("--persons", "--seed", "--server", "--key", "--data", "--json", "Fernleaf"),
    "components": ("--json", "plugin"),
    "pipelines": ("export", "apply", "re-encrypt"),
    "pipelines export": ("--project", "--output", "!env NAME"),
    "pipelines apply": ("--project", "--yes", "--check", "--prune", "- for standard input"),
    "pipelines re-encrypt": ("newest key", "--json"),
    "environments": ("list", "create", "add", "protect", "remove", "matrix", "promote"),
    "environments list": ("--json", "in the order"),
    "environments create": ("NAME=PROJECT", "--json", "Example: hedgerow environments create"),
    "environments add": ("NAME=PROJECT", "--before", "--json"),
    "environments protect": ("--off", "--break-glass", "--json", "approval"),
    "environments remove": ("--yes", "--break-glass", "The projects stay"),
    "environments matrix": ("--search", "--drifting", "--baseline", "--json"),
    "environments promote": (
        "--flag",
        "--all",
        "--part",
        "--with-cohorts",
        "--dry-run",
        "--yes",
        "Example: hedgerow environments promote",
    ),
    "flags": ("list", "show", "create", "enable", "disable", "rollout", "evaluate", "export"),
    "flags list": ("--search", "--state", "--json", "feature_flag:read"),
    "flags show": ("--json", "feature_flag:read"),
    "flags create": ("--name", "--rollout", "--property", "--variant", "--disabled", "--json"),
    "flags enable": ("--json", "changes nothing"),
    "flags disable": ("--json", "changes nothing"),
    "flags rollout": ("--condition", "--json", "From 0 to 100", "Example: hedgerow flags rollout"),
    "flags evaluate": ("--property", "--group-property", "--json", "- for all flags", "--at"),
    "flags export": ("--project", "--product", "--output", "by name"),
    "flags apply": (
        "--project",
        "--product",
        "--yes",
        "--check",
        "--prune",
        "- for standard input",
    ),
    "flags scan": ("--repository", "--commit", "--dry-run", "feature_flag:write", ".gitignore"),
    "flags test": ("--json", "without a database", "status 1"),
    "flags what-if": ("--days", "--evaluated", "--segment", "--metric", "Nothing is changed"),
    "definitions": ("export", "apply"),
    "definitions export": ("--project", "--output", "only seen"),
    "definitions apply": ("--project", "--yes", "--check", "- for standard input"),
    "dashboards": ("export", "apply"),
    "dashboards export": ("--project", "--output", "on a dashboard"),
    "dashboards apply": ("--project", "--yes", "--check", "--prune", "- for standard input"),
    "bandits": ("list", "show", "start", "pause", "resume", "stop"),
    "bandits list": ("--state", "--json", "feature_flag:read", "Example: hedgerow"),
    "bandits show": ("--json", "feature_flag:read", "Example: hedgerow"),
    "bandits start": ("--project", "feature_flag:write"),
    "bandits pause": ("--project", "feature_flag:write"),
    "bandits resume": ("--project", "feature_flag:write"),
    "bandits stop": ("--project", "feature_flag:write"),
    "rollouts": ("list", "show", "start", "pause", "resume", "stop", "rollback"),
    "rollouts list": ("--state", "--json", "feature_flag:read", "Example: hedgerow"),
    "rollouts show": ("--json", "feature_flag:read", "Example: hedgerow"),
    "rollouts start": ("--project", "feature_flag:write"),
    "rollouts pause": ("--project", "feature_flag:write"),
    "rollouts resume": ("--project", "feature_flag:write"),
    "rollouts stop": ("--project", "feature_flag:write"),
    "rollouts rollback": ("--project", "feature_flag:write"),
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
        "--extra-columns",
        "--dry-run",
        "--from-line",
        "--project-key",
        "--server",
        "--json",
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
        "--target-project",
        "the same command continues",
        "Example: hedgerow import posthog",
    ),
    "import unleash": ("{file}", "--environment", "--dry-run", "Percentages stay the same"),
    "import flagsmith": ("{file}", "--overwrite", "--target-project", "Percentages stay the same"),
    "query": (
        "--format",
        "--chart",
        "--project",
        "--server",
        "--key",
        "--json",
        "Example: hedgerow query",
    ),
    "insights": ("run",),
    "insights run": ("{file}", "--chart", "--json", "query:read", "Example: hedgerow insights"),
    "events": ("tail", "export", "delete", "dead-letters"),
    "events tail": ("--event", "--last", "--json", "Ctrl-C"),
    "events export": ("--format", "--after", "--before", "--events-per-file", "stopped", "key"),
    "events delete": ("--uuid", "--person", "--event", "--before", "--project", "--yes", "audit"),
    "events dead-letters": ("list", "show", "retry", "discard"),
    "events dead-letters list": ("--json", "reason"),
    "events dead-letters show": ("Id of a dead letter",),
    "events dead-letters retry": ("--all", "within a second"),
    "events dead-letters discard": ("--all", "--yes"),
    "backup": ("DIR", "--data", "while the service runs"),
    "restore": ("DIR", "--data", "hedgerow backup"),
    "doctor": ("status 1", "--json", "--clickhouse"),
}


def _show_help(command: str) -> str:
    """Return the help of a command, shown in this process because starting another is slow."""
    shown = CliRunner().invoke(app, [*command.split(), "--help"], prog_name="hedgerow")
    assert shown.exit_code == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.output)


def test_the_program_prints_the_same_page_and_exits_with_0() -> None:
    done = run_hedgerow("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == _show_help("").split()


def test_help_is_tested_for_every_command() -> None:
    assert set(WORDS) == {"", *(name for name, _ in walk_commands())}


@pytest.mark.parametrize("command", WORDS)
def test_help_names_the_options(command: str) -> None:
    text = " ".join(_show_help(command).split())
    assert text.startswith(f"Usage: {f'hedgerow {command}'.strip()} ")
    assert [word for word in WORDS[command] if word not in text] == []


@pytest.mark.parametrize("command", WORDS)
def test_every_option_has_a_description(command: str) -> None:
    _, _, options = _show_help(command).partition("Options:\n")
    entries = re.split(r"\n(?=  (?:-|\S))", options.partition("\n\n")[0])
    assert entries
    undescribed = [
        entry for entry in entries if not re.search(r"(?:  |\n +)[A-Z]\S* ", entry.strip())
    ]
    assert undescribed == []


@pytest.mark.parametrize("command", WORDS)
def test_no_description_is_cut_off(command: str) -> None:
    assert not re.search(r"\b(?!ids)[a-z]+\.\.\.", _show_help(command))


def test_help_lists_every_command_with_its_summary() -> None:
    text = " ".join(_show_help("").split())
    assert [name for name in COMMANDS if f" {name} {COMMANDS[name].summary}" not in text] == []


@pytest.mark.parametrize(
    ("command", "entry"),
    [(name, entry) for name, entry in walk_commands() if isinstance(entry, CommandEntry)],
)
def test_a_summary_is_the_first_line_of_the_commands_own_help(
    command: str, entry: CommandEntry
) -> None:
    own_help = load_command(command.split()[-1], entry).help
    assert own_help
    assert own_help.splitlines()[0] == entry.summary


DEPRECATED = {
    ("pipelines", "reseal"): "hedgerow pipelines re-encrypt",
    ("events", "aside"): "hedgerow events dead-letters list",
    ("events", "retry", "--all"): "hedgerow events dead-letters retry",
    ("events", "discard", "1", "--yes"): "hedgerow events dead-letters discard",
    ("import", "x.csv", "--rest"): "--extra-columns",
    ("import", "x.csv", "--no-rest"): "--no-extra-columns",
    ("import", "x.csv", "--key", "phc_0123456789abcdef0123"): "--project-key",
    ("import", "unleash", "x.json", "--into=1"): "--target-project",
}


@pytest.mark.parametrize("arguments", DEPRECATED)
def test_an_old_name_still_works_with_one_line_of_deprecation(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    data = tmp_path if arguments[0] != "import" else None
    done = run_in_process(*arguments, data=data)
    warning, error = done.stderr.splitlines()
    assert "is deprecated: use" in warning
    assert f"`{DEPRECATED[arguments]}`" in warning
    # The command itself ran, and found neither an installation nor a file.
    assert done.returncode == 1
    assert "There is no installation" in error or "x." in error or "project" in error


def test_deprecated_names_are_not_listed() -> None:
    shown = _show_help("events") + _show_help("pipelines") + _show_help("import files")
    assert not re.search(r"\b(aside|reseal|--rest|--key)\b", shown)


def _list_modules(*arguments: str) -> set[str]:
    """Return the modules that a call of the command has imported when it ends."""
    program = (
        "import sys, hedgerow.cli\n"
        "try: hedgerow.cli.main()\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


# Packages that take more than 0.05 s of CPU to import.
HEAVY = {
    "aiohttp",
    "alembic",
    "chdb",
    "clickhouse_connect",
    "fastapi",
    "httpx",
    "numpy",
    "psycopg",
    "pyarrow",
    "pydantic",
    "rich",
    "scipy",
    "sqlalchemy",
    "structlog",
    "uvicorn",
}
LOCAL = HEAVY - {"sqlalchemy"}
LOADED_BY = {
    ("--help",): HEAVY | {"asyncio", "hedgerow.cli.options"},
    ("--version",): HEAVY | {"asyncio", "hedgerow.cli.options"},
    ("events", "--help"): HEAVY | {"asyncio"},
    ("keys", "create", "--help"): HEAVY,
    ("flags", "apply", "--help"): HEAVY,
    ("flags", "rollout", "--help"): HEAVY | {"asyncio"},
    ("pipelines", "apply", "--help"): HEAVY,
    ("import", "posthog", "--help"): HEAVY,
    ("events", "export", "--help"): HEAVY,
    ("doctor", "--help"): HEAVY,
    ("settings",): HEAVY | {"asyncio"},
    ("query", "select 1", "--server", "http://127.0.0.1:1"): HEAVY,
    ("experiments", "list", "--server", "http://127.0.0.1:1"): HEAVY,
    ("events", "tail", "--server", "http://127.0.0.1:1"): HEAVY,
}


@pytest.mark.parametrize("arguments", LOADED_BY)
def test_a_command_does_not_load_packages_that_it_does_not_use(arguments: tuple[str, ...]) -> None:
    assert sorted(LOADED_BY[arguments] & _list_modules(*arguments)) == []


def test_the_event_engine_loads_no_packages_that_it_does_not_use() -> None:
    program = (
        "import sys; from hedgerow.storage.events.embedded.chdb_server import import_chdb\n"
        "import_chdb().connect(':memory:').query('SELECT 1')\n"
        "print(*(name for name, module in sys.modules.items() if module))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    assert sorted((HEAVY - {"chdb"} | {"asyncio"}) & set(done.stdout.split())) == []


@dataclass(frozen=True, slots=True)
class Load:
    """What a command has loaded when it opens its database: 100 modules take about 0.1 s of CPU,
    and 35 collections of garbage 0.04 s."""

    modules: int
    collections: int


MAX_LOAD = Load(modules=500, collections=20)


def _measure_load(*arguments: str) -> Load:
    program = (
        "import gc, os, sys, hedgerow.cli\n"
        "def stop(event, _):\n"
        "    if event == 'sqlite3.connect':\n"
        "        collections = sum(each['collections'] for each in gc.get_stats())\n"
        "        os.write(1, b'%d %d' % (len(sys.modules), collections)); os._exit(0)\n"
        "sys.addaudithook(stop)\n"
        "hedgerow.cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    return Load(*map(int, done.stdout.split()))


@pytest.mark.parametrize(
    "arguments",
    [
        ("keys", "list"),
        ("projects", "list"),
        ("events", "dead-letters", "list"),
        ("flags", "export"),
        ("flags", "evaluate", "-", "ann"),
        ("pipelines", "export"),
    ],
)
def test_a_command_on_the_database_loads_its_driver_and_no_engine_of_the_service(
    arguments: tuple[str, ...], initialized: Path
) -> None:
    modules = _list_modules(*arguments, "--data", str(initialized))
    assert "sqlalchemy" in modules
    assert sorted(LOCAL & modules) == []
    load = _measure_load(*arguments, "--data", str(initialized))
    assert load.modules <= MAX_LOAD.modules
    assert load.collections <= MAX_LOAD.collections


@pytest.fixture(scope="module")
def initialized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("initialized") / "data"
    assert run_in_process("init", data=data).returncode == 0
    return data


def test_a_command_that_opens_no_events_does_not_load_their_engine(tmp_path: Path) -> None:
    heavy = {"chdb", "clickhouse_connect", "numpy"}
    assert heavy.isdisjoint(_list_modules("init", "--data", str(tmp_path)))


def test_a_service_that_sends_nothing_does_not_load_the_http_client() -> None:
    assert "aiohttp" not in _list_modules("serve", "--help")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("hedgerow ke", ["keys"]),
        ("hedgerow keys re", ["revoke"]),
        ("hedgerow events dead-letters d", ["discard"]),
        ("hedgerow serve --po", ["--port"]),
    ],
)
def test_a_shell_completes_commands_and_their_options(typed: str, offered: list[str]) -> None:
    environment = {
        "_HEDGEROW_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
    }
    shown = CliRunner().invoke(app, [], prog_name="hedgerow", env=environment)
    assert shown.output.split() == offered
