"""Imports stop before the disk is so full that capture is refused, and wait for space."""

from hedgerow.plugin.imports import ImportFiles, JobPostponed

WAIT_S = 30.0


def check_free_space(files: ImportFiles) -> None:
    """Raise JobPostponed if an import may not write any more."""
    if not files.has_free_space():
        raise JobPostponed(
            "The disk is nearly full: free some space, or lower HEDGEROW_IMPORT_MIN_FREE_DISK_MB. "
            "The import continues by itself.",
            WAIT_S,
        )
