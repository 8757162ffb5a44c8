"""Worker processes: one, a pool of them, and a pool that runs functions."""
