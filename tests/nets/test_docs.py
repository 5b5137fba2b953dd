"""The pages for users name all existing formats, keys and nets, and no others."""

import re
from pathlib import Path

from nets.data import FORMATS
from nets.schema import caffe_pb2 as caffe
from tests.nets.test_zoo import NETS, PARAMETERS

DOCS = Path(__file__).parents[2] / "docs"


def rows(page):
    """The cells of every table row that begins with a name in backquotes."""
    lines = (DOCS / page).read_text("utf-8").splitlines()
    return {
        cells[1].strip(" `"): cells
        for cells in (line.split("|") for line in lines)
        if cells[1:2] and "`" in cells[1]
    }


def test_the_data_page_lists_every_format_with_its_keys():
    found = rows("data.md")
    assert set(found) == set(FORMATS), "docs/data.md has one row for each format in nets.data"
    for name, chosen in FORMATS.items():
        assert set(re.findall(r"`(\w+)`", found[name][2])) == set(chosen.options), name
        assert set(re.findall(r"\*\*`(\w+)`\*\*", found[name][2])) == set(chosen.needed), name


def test_the_caffe_page_lists_every_net_with_its_size():
    found = {name: cells for name, cells in rows("caffe.md").items() if name in NETS}
    assert set(found) == set(NETS), "docs/caffe.md has one row for each net of the zoo"
    assert {name: int(cells[2].replace(" ", "")) for name, cells in found.items()} == PARAMETERS


def test_the_layers_page_names_blocks_and_fields_that_exist():
    text = (DOCS / "layers.md").read_text("utf-8")
    lines = re.findall(r"^\| `\w+`[^|]*\| `(\w+_param)` \|(.*)\|$", text, re.MULTILINE)
    assert len(lines) == 9
    for block, fields in lines:
        message = caffe.LayerParameter.DESCRIPTOR.fields_by_name[block].message_type
        known = {*message.fields_by_name, "Convolution", "ERF", "TANH"}
        assert set(re.findall(r"`(\w+)`", fields)) <= known, block
