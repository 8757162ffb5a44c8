"""The modules that worker processes run. They import little, so that they start fast."""
