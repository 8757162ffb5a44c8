"""Hedgerow: self-hosted flags, events and pipelines that speak PostHog's wire contract."""

__version__ = "0.2.0"
