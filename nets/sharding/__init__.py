"""The FC phase of a net, shared out over several servers by output units."""
