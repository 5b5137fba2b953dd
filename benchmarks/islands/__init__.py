"""Islands: what they learn, and what happens if they come and go. The command is `islands`."""
