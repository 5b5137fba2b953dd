"""The way from [train], or from options in Python, to a topology.

planner          The way from cluster.toml to a topology
diagnostics      The mistakes, warnings and facts that a plan finds in cluster.toml and its files
by_solver        The settings that the solver gives where cluster.toml does not
script_topology  Training from Python
strategies       Presets by name, and the keys that each allows
refusals         Refusals for the two kinds of runs whose numbers are to be compared with those of
                 others
host_layout      The layout of a preset's topology on its hosts, such that each host sums before it
                 sends
auto_settings    The settings of [train] that are "auto"
contents         Checks of a job's files before the training
largest          The largest array that a run will send, to check before the start that no message
                 exceeds `links.max_message_bytes`
devices          The device on which each actor computes
gradient_links   The format of the gradients on each link
predicted_times  The predictions of time that `plan` shows
alternatives     The alternatives that the same cluster.toml allows
measured_runs    The measured time of a run's iteration, from its run directory, to compare with a
                 prediction
learnt           The iterations in which earlier runs reached a target, from their run directories
briefing         The briefing of the actors with tests, checkpoints, wire formats and devices
job_checks       The checks of a job: its nets and its files must fit the preset
job_reading      The reading of a job from [train] and from its files, each of which is opened once
compensating     The effect of asynchronous groups on a plan's momentum
kind_speeds      The speeds of workers whose machines have kinds
recurrent_nets   The demands of nets with recurrent layers on the preset, the batch and the solver
all_samples      The check of all data of a job, for `check --all-samples`
augmenting       The transform and the random changes of images, as [train.data] has them
epochs           The times of a job
solver_sections  The sections of [train] that stand for settings of the solver's file
solver_fit       The solvers that a preset cannot have
whitening        The filters of layers with a `whitening` filler, from the first training images
first_test       The test before the first iteration, which some nets cannot have
graph_nets       A net from a graph of ONNX, which [train.onnx] and `train.batch` complete
layer_patterns   The keys of [train] that name layers by patterns
plan_inputs      The inputs of a plan
written_job      The job as [train] alone describes it, with the paths of its files
run_names        The name of a run that cluster.toml does not name
replays          The actors and settings for which `train.gpu_step`, "replay" or "graph", has no
                 effect
histograms       The actors that make histograms of parameters and gradients (`run.histograms`)
paying_machines  The machines that pay in a run of islands
followers        Actors that share a GPU
timed_passes     Workers on GPUs whose rows follow their measured speeds
workers_on_cpus  The worth of workers on the CPU next to others on a GPU, in one group
settled_shares   The shares of a batch on which a run settles that cuts batches by measured speeds,
                 predicted from the times of its work

See docs/decisions/tuning.md.
"""
