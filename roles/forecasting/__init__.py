"""What a topology will send and hold, told before it runs."""
