"""Islands: what they learn, their periods, and their coming and going. The command is `islands`."""
