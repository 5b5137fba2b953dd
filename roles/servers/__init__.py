"""The servers of the conv model, and the reducers that add up gradients on the way to them.

conv_model       The conv model server
hogwild          Hogwild updates of one model, which several groups write at once without a lock
gradient_gauges  The statistics of a model server's gradients, shown as metrics and sent to actors
                 that ask
model_ledger     The ledger of a model server
model_steps      The steps of a conv model server in an iteration (`ConvModel`)
tree_reducer     A node of the reduction tree
clipped_updates  A model server's gradients that wait for the norm of their iteration, and are then
                 clipped

See docs/decisions/training.md.
"""
