"""The `hedgerow` command line. `commands` lists every command; `main` runs one."""

from hedgerow.cli.main import main

__all__ = ["main"]
