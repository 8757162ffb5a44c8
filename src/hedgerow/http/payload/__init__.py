"""Request bodies, with limits on size, time and depth. `reader` decodes the JSON of SDKs from any
wrapping; `body` and `fields` read and validate the bodies of /api. They raise only AppErrors.
"""
