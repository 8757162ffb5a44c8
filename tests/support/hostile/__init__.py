"""Hostile sources of imports: files, servers and databases that try to exhaust what reads them.

`sources.py` lists them by the component that reads them. Add those of a new import app there.
"""
