"""The events endpoints: listings, selected columns, property values and CSV."""
