"""How far a move is, on a terminal."""

from rich.progress import TextColumn

from hedgerow.cli.moving_plan import progress


def test_names_of_others_are_no_markup() -> None:
    bar = progress()
    bar.add_task("members of Users [/beta] [red]")
    first = bar.columns[0]
    assert isinstance(first, TextColumn)
    assert str(first.render(bar.tasks[0])) == "members of Users [/beta] [red]"
