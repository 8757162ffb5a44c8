"""Servers, processes and data that tests share."""
