"""What more workers cost and bring. The command is `scaling`."""
