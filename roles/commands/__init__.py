"""What `python -m runtime` can do besides starting runs: one file per command, in one process, without messages."""

COMMANDS = {
    "time": "roles.commands.time:time",
    "test": "roles.commands.test:test",
    "convert": "roles.commands.convert:convert",
}
