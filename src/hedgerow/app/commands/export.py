"""Open the directory of an export."""

from hedgerow.outbound.export_files import ExportFolder

__all__ = ["ExportFolder"]
