"""The query endpoint: HogQL and events queries, with caching, asynchronous runs and
cancellation.
"""
