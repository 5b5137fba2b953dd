"""Islands: workers that learn apart and exchange what they have learned with an outer server.

gathering          The gains that wait at the outer server for the next outer step
island             An island: a worker that trains iterations of its own, and exchanges what it has
                   learned
island_messages    The messages between islands and the outer server
island_model       The model of one island
merged_statistics  Running statistics of BatchNorm, merged from several islands by the rows that
                   each has seen
outer_server       The outer server
outer_state        The outer model, and the copy of it that each island holds
outer_step         The outer step: the update of the outer model by what islands have gained
packed_model       All layers of a model as one message carries them, in wire formats
"""
