"""Experiments: feature flags whose variants are compared by what people do after exposure."""
