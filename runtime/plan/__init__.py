"""What will run, as data: topology, placement, program, forecast, drawing."""
