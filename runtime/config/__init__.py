"""cluster.toml: read, checked, every mistake at its line."""
