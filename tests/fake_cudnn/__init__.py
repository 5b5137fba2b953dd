"""A stand-in for NVIDIA's frontend of cuDNN, the module `cudnn`. Put this folder, which has
`cudnn.py`, first in PYTHONPATH. `tests/fake_cuda/source/cudnn.cpp` stands in for cuDNN itself,
below NVIDIA's own frontend. It takes the same fault words.

The module has the functions that `ops.cuda.conv.cudnn` calls. It computes with `ops.reference`, on
the memory that the given strides describe. Device memory must be memory of the host:
`tests.fake_cuda`, or arrays of NumPy. It proposes two engines, 7 and 9. The environment variable
FAKE_CUDNN names a fault. Further words limit the fault to one pass, to plans with a bias or a ReLU,
or to one engine: "wrong conv_dgrad 7", "lacking bias".

    wrong       results are 1 % too large
    idle        nothing is written
    lacking     there is no engine
    unsupported the engine does not suit the pass
    large       the engine needs a terabyte of scratch memory
    hiding      the ReLU of a plan takes NaN for 0 (only this module)
    failing     the plan fails when it runs
    slow        a pass takes 0.2 s
    holding     planning takes 1.5 s and holds the interpreter's lock, as the real cuDNN does
    no driver   no handle can be made
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
