"""Commands for the installation: serve, worker, init, migrate, doctor, backup, settings."""
