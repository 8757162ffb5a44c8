"""Login with a provider. The service loads this module only if a provider is set."""

from hedgerow.app.commands.people import People
from hedgerow.lib.clock import utc_now
from hedgerow.lib.encryption import Cipher
from hedgerow.outbound.provider_http import GuardedProviderHttp
from hedgerow.people.oidc.login import ProviderLogins
from hedgerow.people.oidc.model import ProviderConfig
from hedgerow.people.oidc.provider import Provider
from hedgerow.plugin.http import HttpClient
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import ProjectId
from hedgerow.settings import Settings

CALLBACK_PATH = "/api/login/oidc/callback/"


def build_provider_logins(
    settings: Settings,
    people: People,
    directory: Directory,
    cipher: Cipher,
    clients: tuple[HttpClient, HttpClient],
) -> ProviderLogins:
    """`clients` are one that may reach private networks, for the issuer, and one that may not."""
    config = build_config(settings)
    http = GuardedProviderHttp(config.issuer, *clients)
    return ProviderLogins(
        config,
        Provider(config, http, utc_now),
        people.identities,
        people.logins,
        people.members,
        directory,
        lambda: cipher,
    )


def build_config(settings: Settings) -> ProviderConfig:
    roles = {ProjectId(id): role for id, role in settings.oidc_new_members}
    return ProviderConfig(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        client_secret=settings.oidc_client_secret,
        name=settings.oidc_name,
        scopes=settings.oidc_scopes,
        redirect_uri=settings.public_url + CALLBACK_PATH,
        domains=settings.oidc_domains,
        new_member_roles=roles or None,
        trusts_emails=settings.oidc_trust_emails,
    )
