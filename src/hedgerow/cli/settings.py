"""`hedgerow settings`: every setting, its value and where that came from."""

import json
import os
from dataclasses import asdict

from hedgerow.cli.options import DataOption, JsonOption
from hedgerow.cli.tables import show, table
from hedgerow.settings import load


def settings(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show every setting, its value, where that came from and what it means.

    Set one with its environment variable: HEDGEROW_PORT=9000 hedgerow serve
    """
    _, origins = load(os.environ, {"data": data})
    if as_json:
        print(json.dumps([asdict(origin) for origin in origins]))
        return
    rows = table("setting", "value", "from", "meaning")
    for origin in origins:
        rows.add_row(origin.variable, origin.shown or "-", origin.source, origin.help)
    show(rows)
