"""What the user types."""
