"""Arguments that several commands take."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

Settings = Annotated[
    tuple[str, ...], Parameter(name="--set", help="Override a value: --set train.strategy.groups=4", negative=())
]
