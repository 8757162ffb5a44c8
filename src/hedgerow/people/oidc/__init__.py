"""Login with an OpenID Connect provider: authorization code with PKCE."""
