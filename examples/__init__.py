"""Programs that run on Convoy's runtime; each runs as a test."""
