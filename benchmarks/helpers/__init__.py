"""Code that several benchmarks share: records, machines, runs as a user sees them, strangers."""
