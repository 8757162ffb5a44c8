"""TrendsQuery: a number for each interval, by series and breakdown."""
