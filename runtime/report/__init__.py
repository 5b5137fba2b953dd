"""What is known of a run: on disk, as a stream, on a terminal."""
