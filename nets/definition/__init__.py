"""A net as its author wrote it: prototxt, older formats brought up to date, parameters and solver, checked."""
