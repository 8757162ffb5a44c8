"""A server that accepts events and works on none, to measure accepting alone. `hedgerow serve`
refuses to be one on SQLite: nobody else could work on what it accepts.
"""

import sys
from pathlib import Path

import uvloop

from hedgerow.app.state import ensure_data_folder
from hedgerow.cli.options import settings_with
from hedgerow.cli.serve import run


def main(data: str, port: str = "0") -> None:
    settings = settings_with(data=Path(data), port=int(port))
    ensure_data_folder(settings.data)
    uvloop.run(run(settings, worker=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
