"""People: passwords, two-factor authentication, sessions, roles and invites."""
