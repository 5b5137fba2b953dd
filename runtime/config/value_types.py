"""The types of values that several sections of cluster.toml have, and the base class of all
sections."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from runtime.config.problems import Expected
from runtime.terminal_text import is_plain

_UNITS = {"": 1, "k": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_UNITS |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ?([A-Za-z]{0,2})B")


def parse_bytes(value: Any) -> Any:
    """Convert a size such as "64MiB", "1.5 GB" or "100B" to an integer of bytes. A value that is
    not a string is returned unchanged. Raises ValueError."""
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(value)
    if match is None or match[2] not in _UNITS:
        raise ValueError("not a size")
    return int(float(match[1]) * _UNITS[match[2]])


Bytes = Annotated[
    int,
    BeforeValidator(parse_bytes),
    Field(ge=1, lt=2**63),
    Expected("a size in bytes >= 1, such as 1048576 or '64MiB'"),
]
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
NAMED = "a name of up to 64 letters, digits, '.', '_', '-' that begins with a letter or digit"
Name = Annotated[str, Field(pattern=f"^{NAME}$"), Expected(NAMED)]
Text = Annotated[str, Field(min_length=1), Expected("a non-empty string")]


def _plain(value: str) -> str:
    if not is_plain(value):
        raise ValueError(f"expected {PLAIN}")
    return value


PLAIN = "a non-empty string without control characters"
# a word of a command or of a line in a script: an end of line in it would start another line
Word = Annotated[str, Field(min_length=1), AfterValidator(_plain), Expected(PLAIN)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Port = Annotated[int, Field(ge=1, le=65535)]


class Section(BaseModel):
    """The base class of every section, for programs too. Unknown keys are refused, values are not
    converted silently, and a section cannot be changed after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    # names of other programs or other sections, and the keys that stand for them; shown to users
    # who write such a name here
    other_names: ClassVar[Mapping[str, str]] = {}
