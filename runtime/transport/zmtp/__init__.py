"""What ZeroMQ's sockets need around them: an event loop that reads them, and a door that lets in
few strangers.

watched     a socket whose messages the event loop reads, a few in each turn
strangers   the connections of a process that have proven nothing yet, and how many they may be
turnstile   a listening socket whose connections are accepted one by one, as it is told
door        both together: what a listener hears of its connections, and when it accepts the next

See docs/decisions/security.md.
"""
