"""Commands for people: users, roles and invites."""
