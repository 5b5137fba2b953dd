"""Recurrent layers: products over all steps at once, then the steps.

recurrent  recurrence   LSTM and RNN of the backend; the plan for one shape
time_steps  units            step by step: the state's product, and the units as LLVM IR
"""
