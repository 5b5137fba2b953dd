"""Operators' commands during faults. The command is `operators`."""
