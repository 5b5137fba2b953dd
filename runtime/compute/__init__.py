"""Array work off the event loop: the compute thread, emulated devices, service times."""
