"""Who holds the conv model, and who adds up gradients on the way to it.

conv_model       publishes versions, applies summed gradients
hogwild          updates that race
gradient_gauges  what its gradients say of staleness, momentum and noise
model_ledger     who reads which version, which gradients are in
model_steps      what it does in an iteration, for predictions
tree_reducer     a node of the reduction tree

See docs/decisions/training.md.
"""
