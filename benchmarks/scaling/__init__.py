"""The costs and gains of more workers. The command is `scaling`."""
