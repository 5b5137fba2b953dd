"""The plan of a run, as data: actors, processes, machines, links and expected costs.

topology       A topology: which actors there are, who talks to whom, who leads
placement      Puts actors into processes, processes on machines and cores, as the configuration
               says
cores          What only a machine knows
program        The program of a topology, where its actors live
run_plan       The run plan
machine_files  Where the files of a run lie on a machine
roads          Which roads the processes of a run take
host_map       Which hosts a placed topology spans, who lives on each, and how many cores each has
credentials    The keys of a run, made anew for each
forecast       What a program can say of a topology before anything starts
room           Is there room for a plan?
prospects      What a program can say of the time that a plan will take, before anything starts
open_choice    What a program leaves open until its run starts
"""
