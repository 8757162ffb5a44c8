"""Mail, for the service and for `hedgerow mail`."""

from collections.abc import Callable
from importlib import import_module

import structlog

from hedgerow.errors import OperatorError
from hedgerow.lib.clock import utc_now
from hedgerow.lib.encryption import Cipher
from hedgerow.lib.threads import run_in_thread
from hedgerow.people.mail.messages import MailMessage, build_test_message
from hedgerow.people.mail.outbox import MailKind, MailTransport, Outbox
from hedgerow.settings import Settings
from hedgerow.storage.engine.database import Database
from hedgerow.storage.people.outgoing_mail import SqlMailStore

TRANSPORT_MODULE = "hedgerow.outbound.smtp"

_log = structlog.get_logger("hedgerow.mail")


class LazyTransport(MailTransport):
    """Loads the mail library with the first message: most processes send none."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._transport: MailTransport | None = None

    async def send(self, message: MailMessage) -> None:
        if self._transport is None:
            settings = self._settings
            module = await run_in_thread(lambda: import_module(TRANSPORT_MODULE))
            server = module.MailServer(
                host=settings.smtp_host,
                port=settings.smtp_port,
                tls=settings.smtp_tls,
                user=settings.smtp_user,
                password=settings.smtp_password,
                sender=settings.mail_from,
            )
            self._transport = module.SmtpTransport(server)
        assert self._transport is not None
        await self._transport.send(message)


def build_outbox(
    settings: Settings, database: Database, load_cipher: Callable[[], Cipher]
) -> Outbox:
    transport = None
    if settings.smtp_host:
        transport = LazyTransport(settings)
    return Outbox(
        SqlMailStore(database),
        transport,
        settings.public_url,
        load_cipher,
        utc_now,
        _log_failure,
    )


def check_mail_settings(settings: Settings) -> None:
    """Raise OperatorError if mail cannot be sent with these settings."""
    if not settings.smtp_host:
        raise OperatorError("No mail server is set. Set HEDGEROW_SMTP_HOST.")
    if not settings.mail_from:
        raise OperatorError("Mail needs a sender. Set HEDGEROW_MAIL_FROM, or no mail server.")
    if not settings.public_url:
        raise OperatorError(
            "Mail contains links to this service. Set HEDGEROW_PUBLIC_URL, or no mail server."
        )
    if settings.smtp_password and settings.smtp_tls == "none":
        raise OperatorError(
            "HEDGEROW_SMTP_PASSWORD would be sent unencrypted. Set HEDGEROW_SMTP_TLS to starttls "
            "or tls, or no password."
        )


async def send_test_mail(settings: Settings, address: str) -> None:
    """Send a message at once. Raises MailError."""
    check_mail_settings(settings)
    await LazyTransport(settings).send(build_test_message(address, settings.public_url))


def _log_failure(kind: MailKind, reason: str) -> None:
    _log.error(
        "mail was not sent", kind=kind, reason=reason, hint="Try `hedgerow mail test ADDRESS`."
    )
