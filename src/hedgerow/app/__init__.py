"""The one place where things are joined: settings -> stores -> rooms -> the HTTP application and
its chores. One file for each that is opened, so that a verb loads only what it uses.
"""
