"""The ways of arrays between a device, the host and other processes.

transfers     Copies between the host and a device in the order of its work, which nothing waits for
              until their numbers are needed
uploads       Copies of images to a device on a stream of their own
host_copies   Copies of a device's arrays in memory of the host that other processes read in place
page_locks    The page locks of memory that this process shares with others
peer_memory   Memory of a device that processes share through handles of CUDA IPC
device_array  An array of a device for other actors
"""
