"""Jobs of records: requesting and controlling them, the loop that runs them, and what they do."""
