"""What events change in persons and groups. Pure: storage loads the state and saves the changes."""
