"""The cost of many strangers to a process. The command is `floods`."""
