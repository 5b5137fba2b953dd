"""A stand-in for the module `cudnn`, NVIDIA's frontend: `cudnn.py` here, for the front of a
PYTHONPATH. What stands in for cuDNN below NVIDIA's own frontend is
`tests/fake_cuda/source/cudnn.cpp`, and takes the same words.

It has what `ops.cuda.conv.cudnn` calls, and computes by `ops.reference` where the strides it was
told say. Device memory has to be the host's: `tests.fake_cuda`, or arrays of NumPy. The
environment's FAKE_CUDNN says what goes wrong, and behind it in which pass, if not in all: "wrong
conv_dgrad".

    wrong       results are 1 % too large
    idle        nothing is written
    lacking     there is no engine
    failing     the plan fails when it runs
    slow        a pass takes 0.2 s
    holding     a plan takes 1.5 s, with the interpreter's lock held, as the real one holds it
    no driver   no handle can be made
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
