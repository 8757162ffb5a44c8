"""People: login, sessions, two-factor authentication, members, roles and invites."""
