"""The FC (fully connected) phase: its server, its shards, and the side of the conv workers.

server        The merged FC server
phase         A conv worker's side of the FC phase
shard         An FC shard
work          The array work of an FC shard, from one exchange of columns to the next, and its
              parameters
queue         The passes that wait for an FC shard
swap          The messages between FC shards
pass_steps    The steps of an FC shard in a group's iteration (`FcShard._pass`, read from top to
              bottom)
fc_batches    The FC batches of a pass and their rows, by the schemes of One weird trick, section 4
micro_shards  A shard of the FC phase in micro-batches, and its work
"""
