"""Where the state is kept. Rooms see none of this: they name what they need, app/ joins the
two.
"""
