"""Plain objects behind the roles. No message is sent here.

job                What is trained
backends           Which array backend a role computes with
parameters         The parameters of some layers: read by others, published, saved, and put back
parameter_store    Parameters and their updates: what a model server is, without its messages
model_holder       Whoever holds parameters
gradient_sum       Sums gradients in parts, in a fixed order, so that the result does not depend on
                   who came first
part_counts        Wholes that come in parts: which parts are here, and when that is all of them
tree               The shape of a reduction tree: who adds up whose gradients (FireCaffe section 6)
wire_formats       How gradients travel
batch_split        Which rows of a batch each member of a group computes
micro_batches      A net that computes a batch in micro-batches, fixed by the batch alone, and adds
                   up their gradients in one tree
accumulated        A net that computes its rows in several passes, one after the other, and adds up
                   their gradients
buffers            Where the roles' new arrays lie
resume             Checkpoints of a training run: what is in the file, writing it, starting from it
checkpoint_slices  What arrays a checkpoint holds
scoreboard         What the numbers of a run say

See docs/decisions/sums.md.
"""
