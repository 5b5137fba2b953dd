"""Forecasts of a topology: its traffic, its memory and the time of an iteration, before it runs and
while it runs.

plan_forecast      What `plan` shows of a topology of training roles before it runs
traffic            How many bytes of arrays each link carries in one training iteration, exactly
prediction         How long a training iteration of a topology will take, from how long its pieces
                   take and how fast its network is
work_times         How long array work takes on average, for predictions
prediction_inputs  What predictions for a plan rest on
statistical        Statistical efficiency: how many iterations a target takes, by what runs have
                   counted (Omnivore, section 4.2)
costs              How long array work takes, from what is in it (`Load`)
layer_times        How long array work takes on this machine, measured layer by layer
catalogue          Kinds of machines that one thinks of renting: what they compute, send and cost
observer           Predicted beside measured, while a run goes on: its observer (docs/programs.md)
fitted_model       A run that goes on, as a model
live_times         Service times of a run that goes on, from the sums that its processes tell of
                   their work
prediction_error   Was a prediction true, and if not, which station differs?
regrouped          The topology of a run whose groups or batch were changed

See docs/decisions/tuning.md.
"""
