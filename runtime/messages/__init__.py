"""What actors say: message classes, their bytes, and how many bytes may be under way."""
