"""What a topology will send and hold, and how long an iteration will take, told before it runs and
while it runs.

plan_forecast     memory and traffic, for `plan`
traffic     bytes on each link in one iteration
prediction  seconds of an iteration, and what is busy meanwhile
work_times       how long pieces of work take, from a profile or from a run
prediction_inputs       what predictions for a plan rest on: machines and their network, how long array work takes there
statistical how many iterations a target takes, by what runs have counted
costs       how long array work takes, from what is in it
layer_times the same, measured here: each layer, each update, a sum
catalogue   kinds of machines that one can rent
observer    predicted beside measured, of a run that goes on:
            live_times (what it measures)  fitted (what it predicts)  miss (whose work differs)  regrouped

See docs/decisions/tuning.md.
"""
