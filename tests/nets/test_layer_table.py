"""docs/layers.md says what the classes say."""

from pathlib import Path

from nets.definition.rules import RULES
from nets.layers.layer_table import markdown

PAGE = (Path(__file__).parents[2] / "docs" / "layers.md").read_text("utf-8")


def test_the_table_of_layers_in_the_docs_is_that_of_the_classes():
    table = PAGE.split("<!-- table -->\n")[1].split("<!-- end of table -->")[0]
    assert table == markdown(), "write it anew: python -m nets.layers.layer_table"


def test_the_table_of_solvers_in_the_docs_names_them_all_with_their_histories():
    rows = [
        line.split("|")[1:3]
        for line in PAGE.split("## Solvers")[1].splitlines()
        if line.startswith("| `")
    ]
    assert {name.strip(" `"): int(count) for name, count in rows} == {
        n: rule.histories for n, rule in RULES.items()
    }
