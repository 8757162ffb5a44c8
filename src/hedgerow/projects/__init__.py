"""Projects, the keys that open them, what each key may do, and the record of who changed what."""
