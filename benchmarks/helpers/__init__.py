"""What several benchmarks share: records, machines, runs as their users see them, strangers."""
