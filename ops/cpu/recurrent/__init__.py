"""Recurrent layers: products over all steps at once, then the steps.

recurrent       LSTM and RNN of the CPU backend
recurrence      The plan of a recurrent layer of one shape
time_steps      Recurrent layers step by step, for LSTM and RNN alike
units           The units of recurrent layers, one step of one sequence at a time, as LLVM IR
state_packing   The weights of a recurrent layer's state, packed into panels once for all steps
state_products  The product of one step of a recurrent layer with the packed weights of its state,
                in float32 or in bfloat16
"""
