"""Events from elsewhere: rows are read, mapped and taken as if they had been sent."""
