"""Plain objects behind the roles. No message is sent here.

job                            net, solver, data, seed
parameter_store  model_holder  published parameters and updates; who answers for them, or for what is beside
hogwild                        updates that race
gradient_sum  parts  tree      sums in a fixed order; wholes that come in parts; who adds up whose
wire_formats                   gradients as they travel, and the errors kept
batch_split  micro_batches     a batch cut among members, and below them
accumulated                    a batch in several passes, with the memory of one
buffers                        where new arrays lie
resume  slices  state_average  checkpoints: the file, parts of parameters, states of several servers
scoreboard                     loss, speed, staleness
"""
