"""The plan of a run, as data: actors, processes, machines, links and expected costs.

topology        A topology: the actors of a run, the links between them and the lead
placement       Placing actors into processes, and processes on machines and cores, as the
                configuration asks
cores           The threads and cores of a process, which only its machine can determine
program         The program of a topology, as the processes of its actors find it
run_plan        The run plan
machine_files   The folders of a run's files on a machine
roads           The roads between the processes of a run
host_map        The hosts of a placed topology: the actors on each, and the number of its cores
credentials     The keys of a run: the keys that each of its processes gets
forecast        The expected memory of each actor and bytes on each link, as a program predicts them
                before anything starts
room            Checking whether a plan fits into memory, before anything starts
prospects       The expected time and price of a plan, as a program predicts them before anything
                starts
open_choice     A choice that a program leaves open until its run starts
homes           The machine of each process that no [[process]] places
rented          The machines of `plan --machine KIND`
run_names       The names of the runs of a topology
peers           The actors that options name as peers, by fields and parameters of the type `Peer`
growth          The growth of a run: the actors that other actors start and end while it goes on
grouping        The actors of a topology, grouped into processes by the rules of cluster.toml
shared_devices  The actors that share memory of their GPU with other processes on it, and the links
                whose arrays stay there
"""
