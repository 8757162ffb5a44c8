"""A server that accepts events and works on none, to measure accepting alone. `hedgerow serve`
refuses to be one on SQLite, where no other process could process the events.
"""

import sys
from pathlib import Path

import uvloop

from hedgerow.app.state import ensure_data_dir
from hedgerow.cli.installation.serve import run
from hedgerow.cli.options import load_command_settings


def main(data: str, port: str = "0") -> None:
    settings = load_command_settings(data_dir=Path(data), port=int(port))
    ensure_data_dir(settings.data_dir)
    uvloop.run(run(settings, worker=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
