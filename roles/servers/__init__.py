"""The servers of the conv model, and the reducers that add up gradients on the way to them.

conv_model       The conv model server
hogwild          Hogwild: updates of one model by several groups at once, without a lock (Niu et al
gradient_gauges  What a model server's gradients say of staleness, momentum and noise, as metrics
                 and to who asks
model_ledger     What a model server knows of the layers it holds
model_steps      What a conv model server does in an iteration, as steps (`ConvModel`)
tree_reducer     A node of the reduction tree

See docs/decisions/training.md.
"""
