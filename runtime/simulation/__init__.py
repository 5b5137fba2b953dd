"""A cluster on one event loop, on virtual time."""
