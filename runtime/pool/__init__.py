"""A function called with many items, in the processes of a run.

function_place  Functions by their place
jobs            The items of a pool as jobs
mapping         `runtime.map`: a function is called with each item, in processes of a run
worker          The program of a pool
"""
