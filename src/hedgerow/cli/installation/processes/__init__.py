"""`hedgerow serve --processes N`: a supervisor and the processes that share its port."""
