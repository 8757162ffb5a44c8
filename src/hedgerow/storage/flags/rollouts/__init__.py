"""Rollout plans and bandits."""
