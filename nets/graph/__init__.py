"""A net that runs: which layer reads what, in which stages, in which memory, what is done in one pass."""
