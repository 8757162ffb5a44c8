"""The command tree: the name, the summary and the module of every command.

A command's module is imported when the command runs or shows its own help. `hedgerow --help`
imports none of them.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from hedgerow.cli.coercion import PlainCommand, use_plain_coercion
from hedgerow.lib.garbage import import_without_gc


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """`target` is a module below hedgerow.cli and a function in it. `renamed_options` maps the old
    spelling of an option to the new one. `replaced_by` marks a deprecated command."""

    target: str
    summary: str
    renamed_options: Mapping[str, str] = field(default_factory=dict)
    replaced_by: str = ""


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """`default` is the command that gets the arguments when the first one names no command."""

    summary: str
    entries: "Mapping[str, CommandEntry | GroupEntry]"
    default: str = ""


Entry = CommandEntry | GroupEntry

_TARGET_PROJECT = {"--into": "--target-project"}

COMMANDS: Mapping[str, Entry] = {
    "serve": CommandEntry(
        "installation.serve:serve",
        "Start the service. The first start creates everything it needs.",
    ),
    "worker": CommandEntry(
        "installation.worker:worker",
        "Process events and run background tasks, without answering requests.",
    ),
    "edge": CommandEntry(
        "installation.edge:edge",
        "Answer /decide, /flags and OFREP without a database, with the definitions of a service.",
    ),
    "edge-inbox": GroupEntry(
        "Manage captured requests that `hedgerow edge` keeps for its origin.",
        {
            "list": CommandEntry(
                "installation.edge_inbox:list_inbox",
                "Show how much waits for the origin, and list the dead letters and what is lost.",
            ),
            "retry": CommandEntry(
                "installation.edge_inbox:retry_dead_requests",
                "Send all dead letters to the origin again.",
            ),
            "discard": CommandEntry(
                "installation.edge_inbox:discard_dead_requests",
                "Delete all dead letters of the inbox permanently, and the list of what is lost.",
            ),
        },
    ),
    "init": CommandEntry(
        "installation.init:init", "Create the database, a project and its first keys."
    ),
    "settings": CommandEntry(
        "installation.settings:settings", "Show every setting with its value, source and meaning."
    ),
    "migrate": CommandEntry(
        "installation.migrate:migrate", "Apply pending migrations to the database."
    ),
    "backup": CommandEntry(
        "installation.backup:backup",
        "Copy an installation to a directory, even while the service runs.",
    ),
    "restore": CommandEntry("installation.backup:restore", "Create an installation from a backup."),
    "doctor": CommandEntry(
        "installation.doctor:doctor",
        "Check storage, keys, the clock, and work that waits: events, destinations and jobs.",
    ),
    "demo": CommandEntry(
        "demo.demo:demo", "Create a project with a made-up product, full of data to look at."
    ),
    "login": CommandEntry(
        "data.login:log_in",
        "Store the address of a service and a personal API key, for later commands.",
    ),
    "mcp": CommandEntry(
        "data.mcp:serve_assistant", "Answer an assistant with the Model Context Protocol."
    ),
    "logout": CommandEntry(
        "data.login:log_out", "Forget the service and the key of `hedgerow login`."
    ),
    "keys": GroupEntry(
        "Manage personal API keys.",
        {
            "create": CommandEntry(
                "config.keys:create_key", "Create a personal API key and print its value once."
            ),
            "list": CommandEntry(
                "config.keys:list_keys", "List personal API keys, newest first, without values."
            ),
            "revoke": CommandEntry("config.keys:revoke_key", "Revoke a personal API key."),
            "roll": CommandEntry(
                "config.keys:roll_key",
                "Replace the value of a personal API key and print the new one once.",
            ),
        },
    ),
    "mail": GroupEntry(
        "Check the mail server.",
        {
            "test": CommandEntry(
                "people.sign_in:send_test_mail", "Send a test message, and tell whether it worked."
            )
        },
    ),
    "users": GroupEntry(
        "Manage people: roles, invites, passwords and sessions.",
        {
            "list": CommandEntry("people.users:list_users", "List people with their roles."),
            "add": CommandEntry("people.users:add_user", "Add a person, without an invite."),
            "invite": CommandEntry(
                "people.users:invite_user", "Print a link with which a person joins."
            ),
            "role": CommandEntry("people.users:change_role", "Change the roles of a person."),
            "remove": CommandEntry(
                "people.users:remove_user", "Remove a person with its keys and sessions."
            ),
            "reset-password": CommandEntry(
                "people.users:reset_password",
                "Print a link with which a person chooses a new password.",
            ),
            "sessions": CommandEntry(
                "people.users:manage_sessions", "List or end the sessions of a person."
            ),
            "disable-totp": CommandEntry(
                "people.users:disable_totp", "Disable two-factor authentication of a person."
            ),
            "setup-link": CommandEntry(
                "people.users:print_setup_link",
                "Print a new setup link, with which the owner chooses an email and a password.",
            ),
            "login-link": CommandEntry(
                "people.sign_in:print_login_link",
                "Print a link that logs a person in, without a password or the provider.",
            ),
            "disconnect": CommandEntry(
                "people.sign_in:disconnect_user",
                "Forget who a person is at the OpenID Connect provider.",
            ),
            "roles": GroupEntry(
                "Manage the roles that people can have in a project.",
                {
                    "list": CommandEntry(
                        "people.roles:list_roles",
                        "List the roles that people can have in a project.",
                    ),
                    "create": CommandEntry(
                        "people.roles:create_role", "Create a role from scopes."
                    ),
                    "remove": CommandEntry(
                        "people.roles:remove_role", "Delete a role that no person has."
                    ),
                },
            ),
        },
    ),
    "projects": GroupEntry(
        "Manage projects and their secret keys.",
        {
            "create": CommandEntry(
                "config.projects:create_project", "Create a project and print its id and key."
            ),
            "delete": CommandEntry(
                "config.projects:delete_project", "Delete a project with all its data."
            ),
            "list": CommandEntry(
                "config.projects:list_projects", "List all projects with their project keys."
            ),
            "secret": CommandEntry(
                "config.projects:manage_secret", "Show, create or revoke a project's secret keys."
            ),
        },
    ),
    "environments": GroupEntry(
        "Join projects as the environments of a product, and promote flags.",
        {
            "list": CommandEntry(
                "config.environments:list_products", "List products with their environments."
            ),
            "create": CommandEntry(
                "config.environments:create_product",
                "Create a product from projects, which become its environments.",
            ),
            "add": CommandEntry(
                "config.environments:add_environment",
                "Add a project to a product as an environment.",
            ),
            "protect": CommandEntry(
                "config.environments:protect_environment",
                "Protect an environment: changes of its flags need an approval.",
            ),
            "remove": CommandEntry(
                "config.environments:remove_environment",
                "Take an environment out of a product, or remove the product.",
            ),
            "matrix": CommandEntry(
                "config.promotion:show_matrix",
                "Show the flags of a product in each environment, and how they differ.",
            ),
            "promote": CommandEntry(
                "config.promotion:promote_flags",
                "Promote flags from one environment to another.",
            ),
        },
    ),
    "components": CommandEntry(
        "config.components:components", "List the components that pipeline records can use."
    ),
    "flags": GroupEntry(
        "Manage flags on a service or as a YAML file, and explain their values.",
        {
            "list": CommandEntry(
                "data.flags:list_flags", "List the flags of a project, newest first."
            ),
            "show": CommandEntry(
                "data.flags:show_flag", "Show a flag with its conditions and variants."
            ),
            "create": CommandEntry("data.flags:create_flag", "Create a flag with one condition."),
            "enable": CommandEntry(
                "data.flags:enable_flag", "Enable a flag. Its conditions decide who gets it."
            ),
            "disable": CommandEntry(
                "data.flags:disable_flag", "Disable a flag: no person gets it any more."
            ),
            "rollout": CommandEntry(
                "data.flags:roll_out_flag", "Set the percentage of a flag's condition."
            ),
            "evaluate": CommandEntry(
                "config.flag_evaluation:evaluate_flags",
                "Evaluate flags for a distinct id and explain why.",
            ),
            "export": CommandEntry(
                "config.flags:export_flags", "Write all flags of a project as YAML."
            ),
            "apply": CommandEntry(
                "config.flags:apply_flags", "Make a project's flags match a YAML file."
            ),
            "scan": CommandEntry(
                "config.flag_scan:scan_flags",
                "Find the flags that source code names, and upload where.",
            ),
            "test": CommandEntry(
                "config.flag_tests:run_flag_tests", "Run the tests of a flag file."
            ),
            "what-if": CommandEntry(
                "config.what_if:ask_what_if",
                "Show for whom the flags of a YAML file would change.",
            ),
        },
    ),
    "definitions": GroupEntry(
        "Manage event and property definitions, with schemas, as a YAML file.",
        {
            "export": CommandEntry(
                "config.definitions:export_definitions",
                "Write the definitions of a project as YAML.",
            ),
            "apply": CommandEntry(
                "config.definitions:apply_definitions",
                "Make a project's definitions match a YAML file.",
            ),
        },
    ),
    "dashboards": GroupEntry(
        "Manage insights and dashboards as a YAML file.",
        {
            "export": CommandEntry(
                "config.dashboards:export_dashboards",
                "Write the insights and dashboards of a project as YAML.",
            ),
            "apply": CommandEntry(
                "config.dashboards:apply_dashboards",
                "Make a project's insights and dashboards match a YAML file.",
            ),
        },
    ),
    "pipelines": GroupEntry(
        "Manage pipeline records as a YAML file, and their stored secrets.",
        {
            "export": CommandEntry(
                "config.pipelines:export_pipelines",
                "Write all pipeline records of a project as YAML.",
            ),
            "apply": CommandEntry(
                "config.pipelines:apply_pipelines",
                "Make a project's pipeline records match a YAML file.",
            ),
            "re-encrypt": CommandEntry(
                "config.pipelines:re_encrypt", "Encrypt all stored secrets with the newest key."
            ),
            "reseal": CommandEntry(
                "config.pipelines:re_encrypt",
                "Encrypt all stored secrets with the newest key.",
                replaced_by="pipelines re-encrypt",
            ),
        },
    ),
    "import": GroupEntry(
        "Import events from files, a PostHog project, or flags from another service.",
        {
            "files": CommandEntry(
                "importers.files:import_files",
                "Send the rows of CSV, JSON Lines or Parquet files to the service as events.",
                {
                    "--rest": "--extra-columns",
                    "--no-rest": "--no-extra-columns",
                    "--key": "--project-key",
                },
            ),
            "posthog": CommandEntry(
                "importers.posthog:import_posthog",
                "Copy a PostHog project: definitions, groups, persons and events.",
                _TARGET_PROJECT,
            ),
            "unleash": CommandEntry(
                "importers.flags:import_unleash",
                "Create the flags of an Unleash export.",
                _TARGET_PROJECT,
            ),
            "flagsmith": CommandEntry(
                "importers.flags:import_flagsmith",
                "Create the flags of a Flagsmith export.",
                _TARGET_PROJECT,
            ),
        },
        default="files",
    ),
    "query": CommandEntry("data.query:query", "Run a HogQL query on the running service."),
    "insights": GroupEntry(
        "Run trends, funnels, retention and paths.",
        {
            "run": CommandEntry(
                "data.insights:run_insight",
                "Run a trend, funnel, retention or path from a YAML file on the running service.",
            ),
        },
    ),
    "events": GroupEntry(
        "Watch, export and delete events, and handle dead letters.",
        {
            "tail": CommandEntry(
                "data.tail:tail_events", "Show the latest events, then new ones as they arrive."
            ),
            "export": CommandEntry(
                "data.export:export_events", "Write events to files, oldest first."
            ),
            "delete": CommandEntry(
                "data.delete:delete_events", "Delete events permanently, after a confirmation."
            ),
            "dead-letters": GroupEntry(
                "Inspect, retry or discard events that could not be processed.",
                {
                    "list": CommandEntry(
                        "data.dead_letters:list_dead_letters",
                        "List dead letters, oldest first, with the reason for each.",
                    ),
                    "show": CommandEntry(
                        "data.dead_letters:show_dead_letter",
                        "Print the content of a dead letter as JSON.",
                    ),
                    "retry": CommandEntry(
                        "data.dead_letters:retry_dead_letters", "Process dead letters again."
                    ),
                    "discard": CommandEntry(
                        "data.dead_letters:discard_dead_letters",
                        "Delete dead letters permanently.",
                    ),
                },
            ),
            "aside": CommandEntry(
                "data.dead_letters:list_or_show_dead_letters",
                "List dead letters, or show one.",
                replaced_by="events dead-letters list",
            ),
            "retry": CommandEntry(
                "data.dead_letters:retry_dead_letters",
                "Process dead letters again.",
                replaced_by="events dead-letters retry",
            ),
            "discard": CommandEntry(
                "data.dead_letters:discard_dead_letters",
                "Delete dead letters permanently.",
                replaced_by="events dead-letters discard",
            ),
        },
    ),
    "rollouts": GroupEntry(
        "Show, start and stop rollout plans of flags.",
        {
            "list": CommandEntry(
                "data.rollouts:list_rollouts",
                "List rollout plans, newest first.",
            ),
            "show": CommandEntry(
                "data.rollouts:show_rollout",
                "Show the state of a rollout plan, its latest evidence and its history.",
            ),
            "start": CommandEntry(
                "data.rollouts:start_rollout",
                "Start a rollout plan: its condition gets the percentage of the first step.",
            ),
            "pause": CommandEntry(
                "data.rollouts:pause_rollout",
                "Pause a running rollout plan. The flag keeps its percentage.",
            ),
            "resume": CommandEntry(
                "data.rollouts:resume_rollout",
                "Resume a paused rollout plan. Its step begins anew.",
            ),
            "stop": CommandEntry(
                "data.rollouts:stop_rollout",
                "End a rollout plan. The flag keeps its percentage.",
            ),
            "rollback": CommandEntry(
                "data.rollouts:roll_back_rollout",
                "End a rollout plan, with the percentage from before it.",
            ),
        },
    ),
    "bandits": GroupEntry(
        "Show, start and stop bandits, which move the split of a flag.",
        {
            "list": CommandEntry("data.bandits:list_bandits", "List bandits, newest first."),
            "show": CommandEntry(
                "data.bandits:show_bandit",
                "Show the split of a bandit, its latest evidence and its history.",
            ),
            "start": CommandEntry(
                "data.bandits:start_bandit",
                "Start a bandit: from now on it moves the split of its flag.",
            ),
            "pause": CommandEntry(
                "data.bandits:pause_bandit", "Pause a running bandit. The flag keeps its split."
            ),
            "resume": CommandEntry("data.bandits:resume_bandit", "Resume a paused bandit."),
            "stop": CommandEntry(
                "data.bandits:stop_bandit", "End a bandit. The flag keeps its split."
            ),
        },
    ),
    "experiments": GroupEntry(
        "Show experiments and their results.",
        {
            "list": CommandEntry(
                "data.experiments:list_experiments", "List experiments, newest first."
            ),
            "results": CommandEntry(
                "data.experiments:show_results",
                "Show the exposures and the metric results of an experiment.",
            ),
        },
    ),
}


class CommandGroup(TyperGroup):
    """A group that lists its commands from their entries and loads the one that is called."""

    def __init__(
        self, *, entries: Mapping[str, Entry], default: str = "", **attributes: Any
    ) -> None:
        super().__init__(no_args_is_help=True, **attributes)
        self.entries = entries
        self._default = default
        for name, entry in entries.items():
            self.add_command(
                TyperCommand(
                    name,
                    short_help=entry.summary,
                    hidden=isinstance(entry, CommandEntry) and bool(entry.replaced_by),
                )
            )

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        use_plain_coercion(self.get_params(ctx))
        words = {*self.entries, *ctx.help_option_names}
        if self._default and args and args[0] not in words:
            args = [self._default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: Any, args: list[str]
    ) -> tuple[str | None, TyperCommand | TyperGroup | None, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        if name is None:
            return None, None, rest
        entry = self.entries[name]
        if isinstance(entry, CommandEntry):
            if entry.replaced_by and not ctx.resilient_parsing:
                _print_deprecation(f"{ctx.command_path} {name}", f"hedgerow {entry.replaced_by}")
            rest = _replace_options(rest, entry.renamed_options)
        return name, load_command(name, entry), rest


class RootGroup(CommandGroup):
    """The group of all top-level commands."""

    def __init__(self, **attributes: Any) -> None:
        attributes.pop("no_args_is_help", None)
        super().__init__(entries=COMMANDS, **attributes)


def load_command(name: str, entry: Entry) -> TyperCommand | TyperGroup:
    """Import a command and build its parser. A group imports nothing."""
    if isinstance(entry, GroupEntry):
        return CommandGroup(
            name=name,
            entries=entry.entries,
            default=entry.default,
            help=entry.summary,
            rich_markup_mode=None,
        )
    module, _, function = entry.target.partition(":")
    with _hide_rich():
        callback = getattr(import_without_gc(f"hedgerow.cli.{module}"), function)
    app = typer.Typer(rich_markup_mode=None)
    app.callback()(_do_nothing)  # keeps Typer from collapsing a group of one command
    app.command(name, cls=PlainCommand)(callback)
    command = get_group(app).commands[name]
    assert isinstance(command, TyperCommand)
    return command


@contextmanager
def _hide_rich() -> Iterator[None]:
    """Hide rich from structlog, which imports it if it can: 5 MB and 0.1 s of CPU, for tracebacks
    that are never shown with it."""
    if "rich" in sys.modules:
        yield
        return
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["rich"]


def walk_commands(
    entries: Mapping[str, Entry] = COMMANDS, parents: Sequence[str] = ()
) -> Iterator[tuple[str, Entry]]:
    """Yield every command and group that is not deprecated, under its full name."""
    for name, entry in entries.items():
        path = (*parents, name)
        if isinstance(entry, GroupEntry):
            yield " ".join(path), entry
            yield from walk_commands(entry.entries, path)
        elif not entry.replaced_by:
            yield " ".join(path), entry


def _replace_options(arguments: Sequence[str], renamed: Mapping[str, str]) -> list[str]:
    replaced = []
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if option in renamed:
            _print_deprecation(option, renamed[option])
            argument = f"{renamed[option]}{equals}{value}"
        replaced.append(argument)
    return replaced


def _print_deprecation(old: str, new: str) -> None:
    print(
        f"hedgerow: warning: `{old}` is deprecated: use `{new}`. The next release removes the old "
        "name.",
        file=sys.stderr,
    )


def _do_nothing() -> None:
    pass
