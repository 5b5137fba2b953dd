"""`python -m nets.schema`: the tables of docs/caffe.md, from the declaration in `fields`."""

import sys

from nets.schema.fields import markdown

if __name__ == "__main__":
    sys.stdout.write(markdown())
