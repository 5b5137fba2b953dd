"""What a topology will send and hold and how long it will take, told before it runs.

outlook    memory and traffic, for `plan`
traffic    bytes on each link in one iteration
basis      what predictions of time rest on: machines and their network, how long array work takes there
costs      how long array work takes, from what is in it
catalogue  kinds of machines that one can rent
"""
