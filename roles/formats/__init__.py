"""How gradients travel: a format a file, and a line for each here, in the order in which they are
listed.

format                                             what a format says of itself
float32  float16  bfloat16  one_bit  threshold   the formats

See docs/decisions/sums.md.
"""

# isort: off
from roles.formats import float32 as float32
from roles.formats import float16 as float16
from roles.formats import bfloat16 as bfloat16
from roles.formats import one_bit as one_bit
from roles.formats import threshold as threshold
