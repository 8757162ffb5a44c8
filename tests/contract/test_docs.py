"""The documentation matches the code: settings, commands, options, error codes, metrics, module
paths and links."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperOption
from typer.main import get_command

from hedgerow.cli.commands import load_command, walk_commands
from hedgerow.cli.root import app
from hedgerow.http.routes import documented_endpoints
from hedgerow.settings import SettingOrigin, load_settings
from tests.contract.api.cases import check_all
from tests.contract.api.operations import DOCUMENT
from tests.unit.error_family import ERROR_FAMILY

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "hedgerow"
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    *sorted(str(p.relative_to(ROOT)) for p in DOCS.rglob("*.md")),
]
COMPARED = DOCS / "compatibility.md"
VERDICTS = ("same", "better", "on purpose", "not supported")
THEMES = ("light", "dark")
DECISIONS = sorted(path.name for path in (DOCS / "decisions").glob("[0-9]*.md"))

LINK = re.compile(r"\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
METRIC = re.compile(r'"(hedgerow_[a-z_]+)"')
# A path with a folder, such as flags/validate.py; pages write it with or without src/hedgerow.
MODULE = re.compile(r"(?<![\w/.-])((?:[a-z_]+/)+[a-z_0-9]*\.(?:py|toml))\b")
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:")


def section(page: str, title: str) -> str:
    """The text under the first heading that contains `title`, up to the next of its level."""
    heading = re.search(rf"^(#+) [^\n]*{re.escape(title)}\b[^\n]*$", page, re.MULTILINE)
    if heading is None:
        return ""
    rest = page[heading.end() :]
    end = re.search(rf"^#{{1,{len(heading[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text())


def local_links(page: Path) -> Iterator[tuple[Path, str]]:
    """The files that a page links to, each with the heading of the link."""
    for link in LINK.findall(prose(page)):
        if not ELSEWHERE.match(link):
            path, _, anchor = link.partition("#")
            yield (page.parent / path if path else page), anchor


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    return {
        re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
        for title in HEADING.findall(prose(page))
    }


def commands() -> Iterator[tuple[str, Any]]:
    """Every command and group under its full name, with its parser."""
    for name, entry in walk_commands():
        yield name, load_command(name.split()[-1], entry)


def options(command: Any) -> list[str]:
    return [
        spelling
        for parameter in command.params
        if isinstance(parameter, TyperOption) and not parameter.hidden
        for spelling in (*parameter.opts, *parameter.secondary_opts)
    ]


ORIGINS = load_settings({})[1]
COMMANDS = list(commands())
CODES = sorted({kind.code for kind in ERROR_FAMILY})


@check_all("origin", ORIGINS)
def test_every_setting_is_documented_with_its_default(origin: SettingOrigin) -> None:
    page = (REFERENCE / "settings.md").read_text()
    rows = [line.split("|") for line in page.splitlines() if f"| `{origin.variable}` |" in line]
    assert [row[2].strip() for row in rows] == [
        f"`{origin.display_value}`" if origin.display_value else "empty"
    ]


def test_no_setting_is_documented_that_does_not_exist() -> None:
    page = (REFERENCE / "settings.md").read_text()
    known = {origin.variable for origin in ORIGINS}
    assert set(re.findall(r"\bHEDGEROW_[A-Z_]*[A-Z]\b", page)) <= known


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_every_command_is_documented_with_its_options(name: str, command: Any) -> None:
    text = section((REFERENCE / "cli.md").read_text(), f"hedgerow {name}")
    assert text, f"no section about hedgerow {name}"
    assert [spelling for spelling in options(command) if f"`{spelling}" not in text] == []


def test_the_options_of_hedgerow_itself_are_documented() -> None:
    page = (REFERENCE / "cli.md").read_text()
    assert [spelling for spelling in options(get_command(app)) if f"`{spelling}" not in page] == []


@check_all("code", CODES)
def test_every_error_code_is_documented(code: str) -> None:
    assert f"`{code}`" in (REFERENCE / "errors.md").read_text()


def test_every_metric_is_documented() -> None:
    sources = (SOURCE / "app" / "metrics.py", SOURCE / "http" / "server" / "metrics.py")
    names = {name for path in sources for name in METRIC.findall(path.read_text())}
    page = (REFERENCE / "http.md").read_text()
    assert len(names) > 15
    assert sorted(name for name in names if f"`{name}" not in page) == []


def test_every_phase_of_a_log_line_is_documented() -> None:
    marks = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
    phases = set(re.findall(r'\.mark\("([a-z_]+)"\)', marks))
    rows = re.search(r"^\| Phase \|.*?\n\n", (REFERENCE / "http.md").read_text(), re.M | re.S)
    assert rows is not None
    documented = {name for row in rows[0].splitlines() for name in re.findall("`([a-z]+)`", row)}
    assert {"access", "evaluate", "origin"} <= phases
    assert phases == documented


@check_all("page", PAGES)
def test_every_module_that_a_page_names_exists(page: str) -> None:
    named = MODULE.findall((ROOT / page).read_text())
    roots = (SOURCE, ROOT, ROOT / "src")
    assert [path for path in named if not any((root / path).exists() for root in roots)] == []


@check_all("page", PAGES)
def test_every_link_to_a_file_finds_it(page: str) -> None:
    lost = [str(target) for target, _ in local_links(ROOT / page) if not target.exists()]
    assert lost == []


@check_all("page", PAGES)
def test_every_picture_exists_in_both_themes(page: str) -> None:
    """tests/browser/pictures.py makes them."""
    text = (ROOT / page).read_text()
    light, dark = (set(re.findall(rf'"([^"]+)-{theme}\.webp"', text)) for theme in THEMES)
    assert light == dark
    for name in light:
        for theme in THEMES:
            assert ((ROOT / page).parent / f"{name}-{theme}.webp").is_file()


@check_all("page", PAGES)
def test_every_link_to_a_heading_finds_it(page: str) -> None:
    lost = [
        f"{target.name}#{anchor}"
        for target, anchor in local_links(ROOT / page)
        if anchor and target.suffix == ".md" and target.exists() and anchor not in anchors(target)
    ]
    assert lost == []


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split(" | ")]


def compared_rows() -> Iterator[tuple[list[str], list[str]]]:
    """Each row of the tables of docs/compatibility.md, with the head of its table."""
    head: list[str] = []
    for line in COMPARED.read_text().splitlines():
        if not line.startswith("|"):
            head = []
        elif not head:
            head = cells(line)
        elif not line.startswith("|---"):
            yield head, cells(line)


ROWS = list(compared_rows())


@pytest.mark.parametrize(("head", "row"), ROWS, ids=[row[0][:60] for _, row in ROWS])
def test_every_row_of_the_comparison_says_how_and_is_proven(
    head: list[str], row: list[str]
) -> None:
    assert len(row) == len(head)
    assert head[-1] == "Proof"
    assert any(link.startswith("../tests/") for link in LINK.findall(row[-1]))
    if "Compared" in head:
        assert row[head.index("Compared")].startswith(VERDICTS)


def short_path(path: str) -> str:
    """A path as docs/compatibility.md writes it."""
    path = re.sub(r"\{(\w+?)(?:_id)?\}", r":\1", path)
    path = re.sub(r"^/api/(?:projects|environments)/:project(?=/)", "P", path)
    return re.sub(r"^P/pipeline_\w+_configs", "B", path)


def parameters_by_path() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path, operations in DOCUMENT["paths"].items():
        names = found.setdefault(short_path(path), set())
        for operation in operations.values():
            parameters = operation.get("parameters", ())
            names |= {each["name"] for each in parameters if each["in"] == "query"}
    for _, endpoint in documented_endpoints():
        for path in endpoint.paths:
            if not path.endswith((".csv/", ".json/")):  # aliases that select a format
                found.setdefault(short_path(path), set())
    return found


PARAMETERS = parameters_by_path()
ENDPOINTS = [row for head, row in ROWS if head[0].startswith("Endpoint")]


def named_in(row: list[str]) -> set[str]:
    return set(re.findall(r"`([^`]+)`", row[0]))


@check_all("path", PARAMETERS)
def test_every_endpoint_is_compared_with_its_parameters(path: str) -> None:
    """In the rows that name it, and no others."""
    about = [named for row in ENDPOINTS if path in (named := named_in(row))]
    assert about, f"no row about {path}"
    assert PARAMETERS[path] - set[str]().union(*about) == set()


@check_all("row", ENDPOINTS)
def test_every_parameter_stands_in_the_proof_of_its_row(row: list[str]) -> None:
    named = named_in(row)
    taken = set[str]().union(*(PARAMETERS.get(path, ()) for path in named))
    proof = "".join((DOCS / link).read_text() for link in LINK.findall(row[-1]))
    unproven = {name for name in taken & named if not re.search(rf"[?&]{name}\b|\b{name}=", proof)}
    assert unproven == set()


def test_decisions_are_numbered_from_one_without_a_gap() -> None:
    numbers = [int(name[:4]) for name in DECISIONS]
    assert len(numbers) >= 6
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize(
    "heading", ["Context", "Decision", "Consequences", "Alternatives", "Enforced by"]
)
@check_all("decision", DECISIONS)
def test_every_decision_has_its_parts(decision: str, heading: str) -> None:
    text = section((DOCS / "decisions" / decision).read_text(), heading)
    assert text.strip(), f"nothing under {heading}"
