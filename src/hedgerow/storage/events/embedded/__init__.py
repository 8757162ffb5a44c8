"""The files of the embedded engine: verified after they are written, and quarantined."""
