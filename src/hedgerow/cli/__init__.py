"""The `hedgerow` command line. `commands` lists every command; `root` runs one."""

from hedgerow.lib.garbage import import_without_gc


def main() -> None:
    """Run the command of this process's arguments."""
    import_without_gc("hedgerow.cli.root").main()
