"""The commands that the user types, one in each file.

main                The command line: it collects the commands, runs one and prints its errors
up                  `up`: start a run and stay with it to its end
check               `check`: print the run that `up` would start from a cluster.toml, without
                    starting it
plan                `plan`: print the processes of a run, its traffic and its predicted time, in
                    words and as drawings
after               The lines that `up` prints when a run is over
ps                  `ps`: list the live runs of this user
status              `status`: show the progress of a run and of each of its processes
report              `report`: write everything that is known of runs as one HTML page
scale               `scale`: continue a live run with other workers, or on other machines
watch/              Commands that watch a live run in detail
save                `save`: make a live run save a checkpoint now
down                `down`: end a live run
sbatch              `up --sbatch FILE`
join                `join`: act as the agent of this machine for a run that `up` leads on another
                    one
completion          `completion`: let the shell complete the commands and options of `convoy`
arguments           Arguments that several commands take
interrupts          Ctrl-C and SIGTERM before a run handles them itself
compare             `compare`: show how runs differ in their keys and in their scores
run_filters         Filters and orders of a list of runs, as a person writes them
runs                `runs`: list the runs of a folder, live and over, with their scores and the keys
                    that differ
docs                `docs`: a page of the documentation in the terminal
completed_words     The words that shells complete in addition to commands and options
completion_scripts  The ends of the scripts for bash, zsh and fish, which complete names of runs,
                    keys of --set and their values, and names of nets
"""
