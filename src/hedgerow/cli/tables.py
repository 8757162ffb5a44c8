"""Tables on the terminal. Nothing is cut off: long values wrap, and a pipe gets whole lines."""

import sys

from rich.console import Console
from rich.table import Column, Table

WIDE = 1000


def table(*columns: str) -> Table:
    return Table(*(Column(name, overflow="fold") for name in columns), box=None, pad_edge=False)


def show(shown: Table) -> None:
    console = Console() if sys.stdout.isatty() else Console(width=WIDE)
    console.print(shown)
