"""Mail over SMTP. The operator names the mail server, so it may be in a private network."""

import asyncio
from dataclasses import dataclass
from email.errors import MessageError
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import formatdate, make_msgid, parseaddr
from typing import Literal

import aiosmtplib

from hedgerow.people.mail.messages import MailMessage
from hedgerow.people.mail.outbox import MailError, MailTransport

STEP_TIMEOUT_S = 15.0
TOTAL_TIMEOUT_S = 45.0
MAX_REASON_CHARS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    host: str
    port: int
    tls: Literal["starttls", "tls", "none"]
    user: str
    password: str
    sender: str


class SmtpTransport(MailTransport):
    """One connection for each message."""

    def __init__(self, server: MailServer) -> None:
        self._server = server

    async def send(self, message: MailMessage) -> None:
        server = self._server
        client = aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            use_tls=server.tls == "tls",
            start_tls=server.tls == "starttls",
            timeout=STEP_TIMEOUT_S,
        )
        try:
            content = build_content(message, server.sender)
            async with asyncio.timeout(TOTAL_TIMEOUT_S), client:
                if server.user:
                    await client.login(server.user, server.password)
                await client.send_message(content)
        except (aiosmtplib.SMTPException, OSError, ValueError, MessageError) as error:
            raise _describe(error, server) from None
        finally:
            client.close()


def build_content(message: MailMessage, sender: str) -> EmailMessage:
    """Raises ValueError for a line break in a header."""
    content = EmailMessage(policy=SMTP_POLICY)
    content["From"] = sender
    content["To"] = message.recipient
    content["Subject"] = message.subject
    content["Date"] = formatdate()
    content["Message-ID"] = make_msgid(domain=parseaddr(sender)[1].rpartition("@")[2])
    # No out-of-office replies.
    content["Auto-Submitted"] = "auto-generated"
    content.set_content(message.text)
    return content


def _describe(error: Exception, server: MailServer) -> MailError:
    place = f"{server.host}:{server.port}"
    match error:
        case aiosmtplib.SMTPAuthenticationError():
            return MailError(f"{place} refuses the user name or the password: {_clean(error)}")
        case aiosmtplib.SMTPRecipientsRefused(recipients=[first, *_]):
            code, text = first.code, _clean(first)
            return MailError(f"{place} refuses the recipient: {text}", is_permanent=code >= 500)
        case aiosmtplib.SMTPSenderRefused():
            return MailError(f"{place} refuses the sender {server.sender}: {_clean(error)}")
        case aiosmtplib.SMTPConnectError():
            return MailError(f"Cannot connect to {place}: {_clean(error)}")
        case TimeoutError() | aiosmtplib.SMTPTimeoutError():
            return MailError(f"{place} did not answer in time.")
        case aiosmtplib.SMTPResponseException():
            return MailError(f"{place} answers: {_clean(error)}", is_permanent=error.code >= 550)
    return MailError(f"{place}: {_clean(error) or type(error).__name__}")


def _clean(error: Exception) -> str:
    text = " ".join(str(each) for each in error.args)
    return "".join(each if each.isprintable() else " " for each in text)[:MAX_REASON_CHARS]
