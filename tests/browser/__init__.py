"""Pages in a real browser: Chromium, a server for pages, and npm packages as they are published.

`tests/browser/install` brings what is missing, if it may.
"""
