"""Print the OpenAPI document: `python -m hedgerow.http.openapi`. The types of the console are made
from it."""

import sys

from hedgerow.http.openapi.document import build_document
from hedgerow.http.routes import documented_endpoints
from hedgerow.lib import jsonio

sys.stdout.buffer.write(jsonio.encode(build_document(documented_endpoints())))
