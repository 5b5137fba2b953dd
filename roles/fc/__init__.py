"""The FC phase.

server                     merged: whole batches, its own model
phase                      a conv worker's side
shard  work  queue  swap   shared out by output units: the role, its array work, what waits, columns between shards
pass_steps                 what a shard does in an iteration
fc_batches  micro_shards             of which rows FC batches are made; the same in micro-batches
"""
