"""Who holds the conv model, and who adds up gradients on the way to it."""
