"""Studies of the papers that `benchmarks.tuning` repeats with small nets.

fc_phase    The FC phase merged or not: hardware efficiency and statistical efficiency apart
rate_batch  Rate and batch
same_samples  A recurrent net in groups, and in one process after the same samples
lazy_pull   Models that are pulled layer by layer, or whole
schedule    The tuner and the published schedule
steady      The tradeoff from a cold start and from a warm one
tasks       The nets that learn, and the trials of them
"""
