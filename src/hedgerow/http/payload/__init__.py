"""Bodies of the public paths: JSON, however a PostHog client wrapped it. Bounded in size, time and
depth; whatever the bytes are, only AppErrors come out.
"""
