"""Shared helpers of the tests: runs to look at, programs, machines, servers, damaged files."""
