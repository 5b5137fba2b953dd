"""A run from its start to its end.

run            A run as an object: start it, receive its events, talk to its actors, end it
execution      Executions: the places where the actors of a run live
process_run    A run whose actors live in processes
loop_run       A run whose actors all live on this event loop
virtual_run    A run on the virtual clock
pages          The pages of `up`
observation    Observation of a run by its program while the run goes on
continuing     Reasons for another run to follow one that still runs
healing        Healing after a death
making         The parts of a run that its configuration chooses
signals        Signals of a run
outside        The lock of `up`, and the requests that other processes make through it
choosing       Trials before a run
scripting      Runs from Python
checking       Checks of a configuration, from cluster.toml to a placed topology
places         The folders in which `up` will make the run directory and the private folder
script_record  The configuration that a script's run writes into its config.toml
tracking       The curves of a run for other programs: TensorBoard, and trackers of experiments
live_machines  Machines that leave a run and come back while the processes of other machines go on

See docs/decisions/runs.md.
"""
