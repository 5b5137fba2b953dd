"""The FC phase.

server        The merged FC server
phase         A conv worker's side of the FC phase
shard         An FC shard
work          An FC shard's array work, from one exchange of columns to the next, and its parameters
queue         The passes that wait for an FC shard
swap          What FC shards tell one another
pass_steps    What an FC shard does in a group's iteration, as steps (`FcShard._pass`, read from top
              to bottom)
fc_batches    Of which rows the FC phase makes its batches
micro_shards  A shard of the FC phase in micro-batches, and its work
"""
