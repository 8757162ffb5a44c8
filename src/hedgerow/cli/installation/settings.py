"""`hedgerow settings`: every setting, its value and its source."""

import os

from hedgerow.cli.options import DataOption, JsonOption
from hedgerow.cli.output import print_json, print_table
from hedgerow.settings import load_settings


def settings(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show every setting with its value, source and meaning.

    Set one with its environment variable: HEDGEROW_PORT=9000 hedgerow serve
    """
    _, origins = load_settings(os.environ, {"data_dir": data})
    if as_json:
        print_json(
            [
                {
                    "variable": origin.variable,
                    "help": origin.help,
                    "shown": origin.display_value,
                    "source": origin.source,
                }
                for origin in origins
            ]
        )
        return
    print_table(
        ("setting", "value", "source", "meaning"),
        [
            (origin.variable, origin.display_value or "-", origin.source, origin.help)
            for origin in origins
        ],
    )
