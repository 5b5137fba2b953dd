"""What a topology will send and hold, told before it runs.

outlook  memory and traffic, for `plan`
traffic  bytes on each link in one iteration
observer live_times  miss  regrouped    predicted beside measured, while a run goes on
"""
