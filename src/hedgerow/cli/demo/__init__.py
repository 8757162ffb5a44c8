"""`hedgerow demo`: a project with a believable world in it."""
