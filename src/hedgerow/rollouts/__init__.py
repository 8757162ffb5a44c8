"""Guarded rollouts: flags that are rolled out in steps, and stopped when a metric gets worse."""
