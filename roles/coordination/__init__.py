"""Who trains what next: the coordinator, its schedule, groups and their changes."""
