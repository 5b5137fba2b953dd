"""Recurrent layers: products over all steps at once, then the steps.

recurrent   LSTM and RNN of the CPU backend
recurrence  The plan of a recurrent layer of one shape
time_steps  Recurrent layers step by step, for LSTM and RNN alike
units       The units of recurrent layers, one step of one sequence at a time, as LLVM IR
"""
