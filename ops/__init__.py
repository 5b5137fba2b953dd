"""Under construction in this commit: filled by the commits that follow."""
