"""Small tools that know nothing of our domain. Each file is named for its one thing."""
