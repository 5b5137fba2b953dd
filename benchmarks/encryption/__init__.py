"""What encrypted links cost. The command is `encryption`."""
