"""The plain objects behind the roles, which send no messages.

job                The job that is trained: net, solver, data and seed, as plain data
backends           The choice of a role's array backend
parameters         The parameters of some layers, which are read, published, saved and restored
parameter_store    Parameters and their updates: a model server without its messages
model_holder       An actor that holds parameters
gradient_sum       The sum of gradients that arrive in parts, added in a fixed order
part_counts        Counts of the parts of wholes: which parts have arrived, and when all have
tree               The parent of each worker and reducer in a reduction tree (FireCaffe section 6)
wire_formats       The encoding of gradients that travel, and the errors that a sender keeps for its
                   next gradients
batch_split        The rows of a batch that each member of a group computes
micro_batches      A net that computes a batch in micro-batches, cut by the batch alone, and adds up
                   their gradients in one tree
accumulated        A net that computes its rows in several passes, one after the other, and adds up
                   their gradients
buffers            The allocation of parameters, of their gradients, and of the joined rows of
                   several senders
resume             Checkpoints of a training run
checkpoint_slices  The arrays of a checkpoint, which are whole parameters
scoreboard         The sums behind a run's reports
stream_states      The states that recurrent layers hand from one pass to the next, as their worker
                   keeps them
phases             The phases of test nets in messages and jobs: "TEST", "TEST 1", "TEST 2", ...
transforms         The transforms of a phase's data
common_norm        The norm of a gradient whose layers are summed by several actors, for clipping
epochs             Epochs, the passes over a job's training data, and the iterations that they take
working_nets       The nets of a role that computes, ready for passes
local_steps        The number of iterations that islands train between two exchanges with the outer
                   server
replayed_step      A training step on a device that is recorded once for each size of batch, and
                   then replayed
confusion          The confusion matrices of a test: how often each class was found for each label
histograms         Histograms of parameters and of their gradients, every few iterations
                   (`run.histograms`)
step_numbers       The numbers that change between two replays of a step
recordings         The recordings of a net's passes on a device
plain_pass         A pass of a worker's net in parts
replayed_pass      Passes on a device in parts, which are recorded once for each size of batch and
                   then replayed
readers            The reader of a phase's batches, which are transformed where they are read, or on
                   the device that trains

See docs/decisions/sums.md.
"""
