"""People: logins, sessions, members, roles and invites."""
