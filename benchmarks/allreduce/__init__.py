"""Sums of gradients over the processes of one host. The command is `allreduce`."""
