"""Supervising a run: its processes are started, watched, started again and ended.

supervisor      The supervisor: starts every process of a run, leads them through their life, ends
                them all, and names the cause
supervised_run  The state of a run that the supervisor and its parts share
beginning       The beginning of each life of a process
sameness        Whether all machines run the same software on the same data
processes       The started processes of a run
supervision     Deciding which processes are alive, by three signs, since each sign alone can be
                wrong
standstill      Detecting that a run stands still although every process lives
deaths          Acting on the deaths of processes
causes          Choosing the cause to report, out of several reports of one death
lives           The next lives of processes
revival         The processes that are started again when they die, while their run goes on
rejoining       Machines that come back while a run goes on
growing         The growth of a run that lives in processes

See docs/decisions/processes.md.
"""
