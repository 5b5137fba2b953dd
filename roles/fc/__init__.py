"""The FC phase: the merged server, shards of it, and a worker's side of the conversation."""
