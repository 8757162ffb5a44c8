"""Experiments: flags whose variants are compared by what people do after they saw them."""
