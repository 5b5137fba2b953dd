"""Forecasts of traffic, memory and the time of an iteration, before a run and while it runs.

plan_forecast      The forecast that `plan` shows of a topology of training roles
traffic            The bytes of arrays that each link carries in one training iteration, exactly
prediction         The time of a training iteration of a topology, predicted from the times of its
                   pieces and the speed of its network
work_times         The mean time of array work, for predictions
prediction_inputs  The inputs of predictions for a plan
statistical        Statistical efficiency: the number of iterations that a target takes, learnt from
                   runs (Omnivore, section 4.2)
costs              The time of array work, calculated from the work's `Load`
layer_times        The time of array work on this machine, measured layer by layer, for profiles and
                   for the choice of a preset
catalogue          Kinds of machines: their speed, network and price
observer           The observer of a run, which compares the predicted with the measured time of an
                   iteration
fitted_model       The model of a live run
live_times         Service times of a live run, from the sums of work that its processes report
prediction_error   The decision whether a prediction was wrong, and which station explains the
                   difference
regrouped          The topology of a run whose groups or batch were changed
tuned_cluster      The cluster of a run as plain data, so that its tuner can make the model of it
kind_machines      Machines of known kinds as the inputs of a prediction
prediction_basis   The declaration of a prediction's inputs, and a profile as a source of times
island_machines    The machines of a placed topology with islands, as the prediction of their worth
                   takes them
island_worth       The worth of each machine of a run of islands
island_periods     The periods of islands, from one gain to the next, on a small model of the run in
                   events

See docs/decisions/tuning.md.
"""
