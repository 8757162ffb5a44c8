"""Back up and restore an embedded installation."""

from hedgerow.app.backup import check_embedded, make_backup, restore_backup

__all__ = ["check_embedded", "make_backup", "restore_backup"]
