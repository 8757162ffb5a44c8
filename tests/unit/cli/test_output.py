"""Tables, colour and progress bars, in a terminal and in a pipe."""

import os
import sys
from io import StringIO

import pytest

from hedgerow.cli.output import colorize, print_json, print_table, show_progress


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1


def use_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard output a terminal of 40 columns, without colour."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((40, 24)))
    monkeypatch.setenv("NO_COLOR", "1")
    return terminal


def test_pipe_gets_whole_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("id", "name"), [("1", "x" * 300), ("22", "日本")])
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["id  name", f"1   {'x' * 300}", "22  日本"]


def test_terminal_gets_long_values_folded_into_their_column(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = use_terminal(monkeypatch)
    print_table(("id", "text", "end"), [("1", "words " * 10, "e")])
    lines = terminal.getvalue().splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(lines).count("words") == 10
    assert lines[1].endswith("  e")


def test_values_cannot_break_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("a",), [("one\ntwo\x1b[31m",)])
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_empty_table_shows_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("id",), [], empty="No dead letters.")
    assert capsys.readouterr().out == "No dead letters.\n"


def test_json_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_json([{"name": "日本\n"}])
    assert capsys.readouterr().out == '[{"name": "日本\\n"}]\n'


def test_colour_needs_a_terminal_and_respects_no_color(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_terminal(monkeypatch)
    monkeypatch.setenv("TERM", "xterm")
    assert colorize("x", "green") == "x"
    monkeypatch.delenv("NO_COLOR")
    assert colorize("x", "green") == "\x1b[32mx\x1b[0m"
    monkeypatch.setattr(sys, "stdout", StringIO())
    assert colorize("x", "green") == "x"


def test_progress_bar_shows_its_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "120")
    with show_progress() as progress:
        bar = progress.add_bar("members of Users [/beta] [red]", 3, 1)
        bar.advance()
    assert "members of Users [/beta] [red]" in terminal.getvalue()
    assert "2/3" in terminal.getvalue()


def test_no_progress_bar_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress() as progress:
        progress.add_bar("events", 3).advance(3)
    assert capsys.readouterr().err == ""
