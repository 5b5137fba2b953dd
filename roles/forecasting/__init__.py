"""What a topology will send and hold, told before it runs.

outlook  memory and traffic, for `plan`
traffic  bytes on each link in one iteration
"""
