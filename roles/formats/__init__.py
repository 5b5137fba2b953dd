"""How gradients travel: a format a file, and a line for each here, in the order in which they are
listed.

format     What a format of gradients on their way says of itself
float32    Numbers as they are: float32, and in a run in double precision float64
float16    Two bytes a number, with more digits and a small range
bfloat16   Two bytes a number, with the range of float32: its upper half
one_bit    A bit a number and two means a block
threshold  An index and a sign for each number beyond +-tau

See docs/decisions/sums.md.
"""

# isort: off
from roles.formats import float32 as float32
from roles.formats import float16 as float16
from roles.formats import bfloat16 as bfloat16
from roles.formats import one_bit as one_bit
from roles.formats import threshold as threshold
