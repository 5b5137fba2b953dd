"""Commands of operators beside faults. The command is `operators`."""
