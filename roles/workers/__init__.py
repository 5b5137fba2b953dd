"""Workers, which compute gradients.

conv          The conv worker: one member of a compute group
conv_steps    What a conv worker does in an iteration, as steps (`ConvCompute`, read from top to
              bottom)
replica       A replica: one of p workers that hold the whole net each, and add up their gradients
conv_replica  A conv replica
averaging     A replica that learns by itself for `tau` iterations, then takes the mean of all
              (SparkNet, DL4J
single        One worker that holds the whole net and its parameters
passes        A worker's passes, one after the other
model_links   A worker's model servers
exposure      How much of an iteration is communication that no computing hides

See docs/decisions/training.md.
"""
