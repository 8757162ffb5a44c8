"""Settings for how people log in: an OpenID Connect provider, and mail."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from hedgerow.setting_parsers import (
    define_setting,
    parse_boolean,
    parse_choice,
    parse_server_url,
    parse_text,
    parse_whole_number,
)

_PLAIN_ADDRESS = r"[\w.+-]+@[A-Za-z0-9.-]+"
_MAIL_ADDRESS = re.compile(rf"{_PLAIN_ADDRESS}|[\w .'-]* <{_PLAIN_ADDRESS}>")
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")


def parse_issuer(raw: str) -> str:
    """Anyone on the way of a plain HTTP request could log in as everyone."""
    try:
        url = parse_server_url(raw)
    except ValueError:
        url = "http://"
    parts = urlsplit(url)
    if not url or parts.scheme == "https" or parts.hostname in LOOPBACK_HOSTS:
        return url
    raise ValueError("a URL that begins with https://, or an empty value")


def parse_domains(raw: str) -> tuple[str, ...]:
    domains = tuple(part.strip().lower() for part in raw.split(",") if part.strip())
    if any("." not in each or "@" in each or " " in each for each in domains):
        raise ValueError("comma-separated domains of emails, such as example.com")
    return domains


def parse_roles(raw: str) -> tuple[tuple[int, str], ...]:
    roles = []
    for part in filter(None, (each.strip() for each in raw.split(","))):
        project, _, role = part.partition("=")
        if not (project.isascii() and project.isdecimal() and len(project) < 19 and role.strip()):
            raise ValueError("comma-separated projects with their roles, such as 1=viewer")
        roles.append((int(project), role.strip()))
    return tuple(roles)


def parse_mail_address(raw: str) -> str:
    """Accept `ann@example.com` and `Ann <ann@example.com>`."""
    if not raw.strip() or _MAIL_ADDRESS.fullmatch(raw.strip()):
        return raw.strip()
    raise ValueError("an email address such as Hedgerow <hedgerow@example.com>")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInSettings:
    """The part of the settings that concerns how people log in."""

    oidc_issuer: str = define_setting(
        "",
        parse_issuer,
        "Issuer of the OpenID Connect provider that people log in with. Empty: none.",
    )
    oidc_client_id: str = define_setting("", parse_text, "Client id of Hedgerow at the provider.")
    oidc_client_secret: str = define_setting(
        "",
        parse_text,
        "Client secret of Hedgerow at the provider. Empty: a public client.",
        secret=True,
    )
    oidc_name: str = define_setting(
        "single sign-on", parse_text, "Name of the provider, on the button of the login page."
    )
    oidc_scopes: str = define_setting(
        "openid email profile", parse_text, "Scopes to request from the provider."
    )
    oidc_domains: tuple[str, ...] = define_setting(
        (),
        parse_domains,
        "Domains of emails that may log in with the provider. Empty: all.",
    )
    oidc_new_members: tuple[tuple[int, str], ...] = define_setting(
        (),
        parse_roles,
        "Roles of people whom no one invited, such as 1=viewer. Empty: only invited people join. "
        "Needs HEDGEROW_OIDC_DOMAINS.",
    )
    oidc_trust_emails: bool = define_setting(
        False,
        parse_boolean,
        "Accept emails that the provider does not call verified. Only for a provider at which "
        "people cannot choose their email.",
    )
    password_login: bool = define_setting(
        True,
        parse_boolean,
        "Whether people can log in with a password. false: only with the provider.",
    )
    smtp_host: str = define_setting(
        "", parse_text, "Mail server for password resets and invites. Empty: no mail is sent."
    )
    smtp_port: int = define_setting(587, parse_whole_number(1, 65535), "Port of the mail server.")
    smtp_tls: str = define_setting(
        "starttls",
        parse_choice("starttls", "tls", "none"),
        "How to encrypt the connection to the mail server. tls: from the start, usually port 465.",
    )
    smtp_user: str = define_setting("", parse_text, "User name at the mail server. Empty: none.")
    smtp_password: str = define_setting("", parse_text, "Password at the mail server.", secret=True)
    mail_from: str = define_setting(
        "", parse_mail_address, "Sender of mail, such as Hedgerow <hedgerow@example.com>."
    )
