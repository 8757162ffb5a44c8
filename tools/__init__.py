"""Programs for releases. They are no part of the package."""
