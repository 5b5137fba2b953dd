"""Readers of bytes that anybody may have written, fed by a fuzzer. The command is `fuzz`."""
