"""The batches of a run: the order of the samples, and the threads that read ahead.

batches         The order of samples in a run, epoch after epoch, and the samples of batch number
                `ticket`
device_batches  Batches whose images a device transforms
stream_batches  Batches for a net whose rows are streams
prefetch        Threads that read and transform the next samples, so that the compute thread does
                not wait for them
reused_memory   Memory of large arrays that is used again as soon as nothing refers to an array in
                it
"""
