"""Backups of an embedded installation, and the encryption keys."""
