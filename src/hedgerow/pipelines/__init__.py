"""Pipelines: records, destinations, deliveries, transformations, imports and jobs."""

from hedgerow.plugin.deprecated import install_old_modules

install_old_modules()
