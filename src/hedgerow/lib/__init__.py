"""Small tools without any knowledge of Hedgerow's domain, one topic per file."""
