"""Plain objects behind the roles. No message is sent here.

job  backends                  net, solver, data, seed; what computes them here
parameters  parameter_store    a layer's arrays, published and saved; how they are updated
model_holder                   who answers for them, or for what is beside
gradient_sum  part_counts  tree      sums in a fixed order; wholes that come in parts; who adds up whose
wire_formats                   gradients as they travel, and the errors kept
batch_split  micro_batches     a batch cut among members, and below them
accumulated                    a batch in several passes, with the memory of one
buffers                        where new arrays lie
resume  checkpoint_slices                 checkpoints: the file, parts of parameters
scoreboard                     loss, speed, staleness

See docs/decisions/sums.md.
"""
