"""Insights: trends, funnels, retention and paths over events, in PostHog's query kinds."""
