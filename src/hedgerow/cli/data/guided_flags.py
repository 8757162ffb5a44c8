"""What the commands of rollout plans and bandits have in common: both guide a flag, in the running
service."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from hedgerow.cli.options import JsonOption, KeyOption, ProjectOption, ServerOption
from hedgerow.cli.output import print_json, print_table
from hedgerow.cli.service_client import ServiceClient, connect_service
from hedgerow.lib.text import escape_control_characters

READ, WRITE = "feature_flag:read", "feature_flag:write"
NEEDS_READ = "Needs a personal API key with the scope feature_flag:read."
NEEDS_WRITE = "Needs a personal API key with the scope feature_flag:write."
SHOWN_ENTRIES = 20
NO_VALUE = "-"

IdArgument = Annotated[int, typer.Argument(help="Its id, as the list shows it.", min=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuideCommands:
    """`path` is that of the list, `history` that of the entries below one of them. `describe`
    returns what a guide has done with the flag, after the word `verb`, and `list_evidence` the
    latest evidence."""

    path: str
    history: str
    column: str
    verb: str
    empty: str
    describe: Callable[[Mapping[str, Any]], str]
    list_evidence: Callable[[Mapping[str, Any]], list[str]]

    def print_list(self, service: ServiceClient, state: str | None, *, as_json: bool) -> None:
        found = list(service.list_all(f"{self.path}/", {"state": state} if state else {}))
        if as_json:
            print_json(found)
            return
        names = ("id", "flag_key", "name", "state")
        rows = [
            (*(str(each[name]) for name in names), self.describe(each), each["reason"])
            for each in found
        ]
        print_table(("id", "flag", "name", "state", self.column, "reason"), rows, empty=self.empty)

    def build_show(self, summary: str, example: str) -> Callable[..., None]:
        """Return the command that shows one."""

        def run(
            id: IdArgument,
            as_json: JsonOption = False,
            project: ProjectOption = None,
            server: ServerOption = None,
            key: KeyOption = None,
        ) -> None:
            self._print_one(connect_service(server, key, project, READ), id, as_json=as_json)

        run.__doc__ = f"{summary}\n\n{NEEDS_READ}\n\nExample: {example}"
        return run

    def _print_one(self, service: ServiceClient, id: int, *, as_json: bool) -> None:
        guide = service.request("GET", f"{self.path}/{id}/")
        path = f"{self.path}/{id}/{self.history}/?limit={SHOWN_ENTRIES}"
        entries = service.request("GET", path)["results"]
        if as_json:
            print_json(guide | {self.history: entries})
            return
        self._print_state(guide)
        for line in self.list_evidence(guide):
            print(escape_control_characters(f"  {line}"))
        print_table(
            ("time", "what", "why"),
            [(each["created_at"][:19], each["kind"], each["why"]) for each in entries],
        )

    def build_action(self, action: str, summary: str) -> Callable[..., None]:
        """Return the command that makes a transition."""

        def run(
            id: IdArgument,
            as_json: JsonOption = False,
            project: ProjectOption = None,
            server: ServerOption = None,
            key: KeyOption = None,
        ) -> None:
            service = connect_service(server, key, project, WRITE)
            guide = service.request("POST", f"{self.path}/{id}/{action}/")
            if as_json:
                print_json(guide)
            else:
                self._print_state(guide)

        run.__doc__ = f"{summary}\n\n{NEEDS_WRITE}"
        return run

    def _print_state(self, guide: Mapping[str, Any]) -> None:
        state = guide["state"].replace("_", " ")
        text = (
            f"{guide['flag_key']}: {state}, {self.verb} {self.describe(guide)}. {guide['reason']}"
        )
        print(escape_control_characters(text.strip()))


def format_percentage(percentage: float | None) -> str:
    return NO_VALUE if percentage is None else f"{percentage:g} %"
