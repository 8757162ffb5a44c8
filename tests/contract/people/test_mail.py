"""Mail through a real mail server: password resets, invites, and a server that does not work."""

import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from hedgerow.people.mail.outbox import ACCOUNT_RESETS, ADDRESS_RESETS
from tests.contract.people.conftest import OWNER, PASSWORD, Service
from tests.support.certificates import write_certificate
from tests.support.live import LiveServer, find_free_port, run_in_process, wait_for

USER, SECRET = b"hedgerow", b"mail secret"
NEW_PASSWORD = "another horse battery"


@dataclass
class Mailbox:
    """Refuses what `refusals` has, by recipient."""

    received: list[EmailMessage] = field(default_factory=list)
    refusals: dict[str, str] = field(default_factory=dict)
    is_encrypted: bool = False

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refusals:
            return self.refusals[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        self.is_encrypted = session.ssl is not None
        message = message_from_bytes(envelope.original_content or b"", policy=policy.default)
        assert isinstance(message, EmailMessage)
        assert envelope.rcpt_tos == [message["to"]]
        self.received.append(message)
        return "250 OK"

    def wait_for(self, recipient: str, number: int = 1) -> list[str]:
        """Wait for so many messages to someone, and return their texts."""

        def find() -> list[str]:
            found = [each for each in list(self.received) if each["to"] == recipient]
            return [str(each.get_content()) for each in found]

        wait_for(lambda: len(find()) >= number, 60)
        return find()


def authenticate(*arguments: Any) -> AuthResult:
    given = arguments[-1]
    assert isinstance(given, LoginPassword)
    is_right = (given.login, given.password) == (USER, SECRET)
    return AuthResult(success=is_right, handled=False)


def build_controller(mailbox: Mailbox, certificate: Path, port: int) -> Controller:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return Controller(
        mailbox,
        hostname="127.0.0.1",
        port=port,
        tls_context=context,
        require_starttls=True,
        auth_required=True,
        authenticator=authenticate,
    )


@dataclass(slots=True, kw_only=True)
class MailService:
    service: Service
    mailbox: Mailbox
    certificate: Path
    controller: Controller
    settings: dict[str, str]

    def start_server(self) -> None:
        """Start the mail server again, at the same port."""
        port = int(self.settings["smtp_port"])
        self.controller = build_controller(self.mailbox, self.certificate, port)
        self.controller.start()


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MailService]:
    folder = tmp_path_factory.mktemp("mail")
    certificate, mailbox = write_certificate(folder), Mailbox()
    smtp_port, port = find_free_port(), find_free_port()
    controller = build_controller(mailbox, certificate, int(smtp_port))
    settings = {
        "smtp_host": "127.0.0.1",
        "smtp_port": smtp_port,
        "smtp_user": USER.decode(),
        "smtp_password": SECRET.decode(),
        "mail_from": "Hedgerow <hedgerow@example.com>",
        "public_url": f"http://127.0.0.1:{port}",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(certificate))
        controller.start()
        with (
            LiveServer(
                folder / "data",
                port=port,
                bootstrap_owner_email=OWNER,
                bootstrap_owner_password=PASSWORD,
                trusted_proxies="127.0.0.0/8",
                **settings,
            ) as server,
            server.client() as admin,
        ):
            server.wait_ready()
            service = Service(server=server, admin=admin)
            mail = MailService(
                service=service,
                mailbox=mailbox,
                certificate=certificate,
                controller=controller,
                settings=settings,
            )
            yield mail
            for each in service.opened:
                each.close()
        mail.controller.stop()


def read_link(text: str, kind: str) -> str:
    found = re.search(rf"http://127.0.0.1:\d+/#{kind}=hg\w+", text)
    assert found is not None, text
    return found[0]


def test_reset_by_mail(mail: MailService) -> None:
    service = mail.service
    session, email = service.join(send_email=False)
    headers = {"Host": "evil.example", "X-Forwarded-Host": "evil.example"}
    browser = service.browser()
    response = browser.post("/api/reset/", json={"email": f" {email.upper()} "}, headers=headers)
    assert (response.status_code, response.content) == (204, b"")
    [text] = mail.mailbox.wait_for(email)
    assert mail.mailbox.is_encrypted
    assert "evil.example" not in text
    body = {"token": read_link(text, "reset"), "password": NEW_PASSWORD}
    assert browser.post("/api/reset/confirm/", json=body).status_code == 200
    again = browser.post("/api/reset/confirm/", json=body)
    assert (again.status_code, again.json()["code"]) == (400, "invalid_token")
    assert session.get("/api/users/@me/").status_code == 401
    assert service.log_in(email, NEW_PASSWORD).get("/api/users/@me/").is_success


def test_reset_by_mail_ends_no_link_of_the_operator(mail: MailService) -> None:
    service = mail.service
    _, email = service.join(send_email=False)
    printed = run_in_process("users", "login-link", email, data=service.server.data).stdout
    assert service.browser().post("/api/reset/", json={"email": email}).status_code == 204
    mail.mailbox.wait_for(email)
    link = {"token": read_link(printed, "login")}
    assert service.browser().post("/api/login/link/", json=link).status_code == 200


def test_owner_without_an_address_gets_no_mail(mail: MailService, tmp_path: Path) -> None:
    with LiveServer(tmp_path / "data", **mail.settings) as server, server.client() as admin:
        server.wait_ready()
        service = Service(server=server, admin=admin)
        body = {"email": "owner@hedgerow.invalid"}
        assert service.browser().post("/api/reset/", json=body).status_code == 204
        mail.mailbox.wait_for(service.invite(send_email=True)["target_email"])
        for each in service.opened:
            each.close()
    assert not [each for each in mail.mailbox.received if "invalid" in each["to"]]


def test_unknown_account_looks_the_same_and_gets_no_mail(mail: MailService) -> None:
    _, email = mail.service.join(send_email=False)
    responses = []
    for each in (email, "nobody@example.com"):
        browser = mail.service.browser()
        sent = [
            browser.post("/api/reset/", json={"email": each}) for _ in range(ACCOUNT_RESETS + 1)
        ]
        assert [response.status_code for response in sent] == [204] * ACCOUNT_RESETS + [429]
        responses.append([(dict(r.headers).keys(), r.content[:40]) for r in sent])
    assert responses[0] == responses[1]
    texts = mail.mailbox.wait_for(email, ACCOUNT_RESETS)
    links = [read_link(text, "reset") for text in texts]
    statuses = [
        mail.service.browser()
        .post("/api/reset/confirm/", json={"token": link, "password": NEW_PASSWORD})
        .status_code
        for link in links
    ]
    assert statuses.count(200) == 1  # each mail ends the link of the one before
    assert not [each for each in mail.mailbox.received if "nobody" in each["to"]]


def test_resets_are_limited_per_address(mail: MailService) -> None:
    browser = mail.service.browser()
    for number in range(ADDRESS_RESETS):
        body = {"email": f"reset{number}@example.com"}
        assert browser.post("/api/reset/", json=body).status_code == 204
    assert browser.post("/api/reset/", json={"email": OWNER}).status_code == 429
    assert mail.service.browser().post("/api/reset/", json={"email": OWNER}).status_code == 204


@pytest.mark.parametrize(
    "email",
    [
        "a@b.c\r\nBcc: x@y.z",
        "a@b.c\nx",
        "a b@c.d",
        "<a@b.c>",
        "a@b.c,d@e.f",
        "\0@b.c",
        "@",
        "é\ud800@x",
    ],
)
def test_no_header_can_be_injected(mail: MailService, email: str) -> None:
    """An address is refused before it reaches a message."""
    invites = "/api/organizations/@current/invites/"
    for path, name in (("/api/reset/", "email"), (invites, "target_email")):
        client = mail.service.admin if path == invites else mail.service.browser()
        content = b'{"%s": %s}' % (name.encode(), _encode(email))
        headers = {"Content-Type": "application/json"}
        response = client.post(path, content=content, headers=headers)
        assert response.status_code == 400, response.text


def _encode(text: str) -> bytes:
    return b'"' + "".join(f"\\u{ord(each):04x}" for each in text).encode() + b'"'


def test_invite_by_mail(mail: MailService) -> None:
    invite = mail.service.invite(first_name="Bob\r\nBcc: x@y.z", project_roles={"1": "viewer"})
    assert invite["emailing_attempt_made"] is True
    [text] = mail.mailbox.wait_for(invite["target_email"])
    assert invite["link"] in text
    quiet = mail.service.invite(send_email=False)
    assert quiet["emailing_attempt_made"] is False
    listed = mail.service.admin.get("/api/organizations/@current/invites/").json()["results"]
    made = {each["target_email"]: each["emailing_attempt_made"] for each in listed}
    assert made[invite["target_email"]] is True
    assert made[quiet["target_email"]] is False
    stored = (mail.service.server.data / "hedgerow.db").read_bytes()
    stored += (mail.service.server.data / "hedgerow.db-wal").read_bytes()
    assert invite["link"].rpartition("=")[2].encode() not in stored


def test_mail_server_that_is_down_delays_nothing(mail: MailService) -> None:
    """Mail waits, and is sent when the server is back. What it refuses for good is given up."""
    gone = mail.service.invite(send_email=False)["target_email"]
    mail.mailbox.refusals[gone] = "550 No such user"
    mail.controller.stop()
    try:
        refused = mail.service.invite(target_email=gone)
        late = mail.service.invite()
        assert refused["emailing_attempt_made"] is late["emailing_attempt_made"] is True
    finally:
        mail.start_server()
    mail.mailbox.wait_for(late["target_email"])
    errors = mail.service.server
    wait_for(lambda: "No such user" in errors.errors, 60)
    assert SECRET.decode() not in errors.errors


def test_command_tells_whether_mail_works(mail: MailService) -> None:
    data = mail.service.server.data

    def run(**changed: str) -> tuple[int, str]:
        done = run_in_process(
            "mail", "test", "op@example.com", data=data, **{**mail.settings, **changed}
        )
        return done.returncode, done.stdout + done.stderr

    status, output = run()
    assert status == 0, output
    assert "has accepted a message to op@example.com" in output
    mail.mailbox.wait_for("op@example.com")
    for changed, reason in (
        ({"smtp_password": "other secret"}, "refuses the user name or the password"),
        ({"smtp_port": find_free_port()}, "Cannot connect to 127.0.0.1"),
        ({"smtp_tls": "tls"}, "127.0.0.1"),
        ({"smtp_tls": "none"}, "unencrypted"),
        ({"smtp_tls": "none", "smtp_password": "", "smtp_user": ""}, "127.0.0.1"),
        ({"smtp_host": ""}, "HEDGEROW_SMTP_HOST"),
    ):
        status, output = run(**changed)
        assert status != 0
        assert reason in output, output
        assert "other secret" not in output


def test_untrusted_certificate_is_refused(
    mail: MailService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    done = run_in_process(
        "mail", "test", "op@example.com", data=mail.service.server.data, **mail.settings
    )
    assert done.returncode != 0
    assert "certificate" in (done.stdout + done.stderr).lower()
