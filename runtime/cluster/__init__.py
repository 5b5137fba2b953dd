"""The life of the processes of a run: agent and supervisor, and who counts as dead."""
