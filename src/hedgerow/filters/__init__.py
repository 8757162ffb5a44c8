"""Property filters, shared by flags, cohorts and pipelines."""
