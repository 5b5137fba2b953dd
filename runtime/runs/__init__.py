"""A run from its start to its end: in processes, on this loop, or on virtual time."""
