"""An actor, the node it lives in, the way to its peers, and what is counted."""
