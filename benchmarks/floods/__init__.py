"""What strangers in numbers cost a process. The command is `floods`."""
