"""What `hedgerow import posthog` opens: its ledger file, and a client for the source."""

from hedgerow.outbound.http_client import GuardedHttpClient
from hedgerow.outbound.ssrf_guard import SsrfGuard
from hedgerow.storage.import_ledger import ImportLedgerFile, ImportProgress

__all__ = ["ImportLedgerFile", "ImportProgress", "open_source_client"]


def open_source_client() -> GuardedHttpClient:
    """Return an HTTP client that reaches private networks too: the operator names the host."""
    return GuardedHttpClient(SsrfGuard(allow_private=True))
