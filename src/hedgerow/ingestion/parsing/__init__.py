"""From the JSON body of a capture request to captured events."""
