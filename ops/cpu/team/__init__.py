"""What every kernel runs on: the team of threads, scratch memory, and how arrays are seen."""
