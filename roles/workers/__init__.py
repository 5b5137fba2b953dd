"""Workers, which compute gradients.

conv             The conv worker: one member of a compute group
conv_steps       The steps of a conv worker in an iteration (`ConvCompute`), from top to bottom
replica          A replica: one of p workers that each hold the whole net and add up their gradients
conv_replica     A conv replica, which is a replica for the conv phase of the net
averaging        A replica that trains a separate model for `tau` iterations, then takes the mean of
                 all replicas
single           One worker that holds the whole net and its parameters
passes           The passes of a worker, one after the other
model_links      The links of a worker to its model servers, with the layers of each and the way of
                 their gradients
exposure         The exposed communication of an iteration, which no computing hides
conv_options     The options of a conv worker: what it sends, computes and holds
replica_options  The options of a replica: what it sends, computes and holds
decoders         The processes that decode a worker's pictures, if cores are free for them
reading_ahead    The rows of the coming passes, which are read in the order in which the passes need
                 them

See docs/decisions/training.md.
"""
