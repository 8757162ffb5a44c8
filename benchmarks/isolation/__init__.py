"""How much an attack on an installation, or on a project, harms others."""
