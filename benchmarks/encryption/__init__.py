"""The cost of encrypted links. The command is `encryption`."""
