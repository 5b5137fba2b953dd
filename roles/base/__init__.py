"""What a role of training says of itself before it runs, and what it is told of the topology for that."""
