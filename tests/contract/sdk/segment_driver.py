"""Make one call of each kind with Segment's Python package. Arguments: the address and the key."""

import sys

from segment.analytics.client import Client

host, key = sys.argv[1:]
errors: list[str] = []
client = Client(key, host=host, on_error=lambda error, _: errors.append(str(error)), max_retries=1)
client.track("seg-ann", "Order Completed", {"revenue": 39.5}, context={"ip": "203.0.113.9"})
client.identify("seg-ann", {"plan": "team"}, anonymous_id="seg-visitor")
client.page("seg-ann", "Docs", "Start", {"url": "https://example.com/start"})
client.screen("seg-ann", None, "Basket")
client.group("seg-ann", "acme", {"size": 12})
client.alias("seg-old", "seg-ann")
client.flush()
client.join()
sys.exit("\n".join(errors) or 0)
