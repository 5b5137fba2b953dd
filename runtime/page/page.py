"""The report as one HTML page that holds everything it needs. A template gives its form, `facts`
its contents."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path

from runtime.errors import ConvoyError
from runtime.page.curves import figures
from runtime.page.report_facts import facts
from runtime.page.run_history import RunHistory
from runtime.plan.forecast import shown

HERE = Path(__file__).parent
STAMP = re.compile(r"^\d{8}-\d{6}-")  # of run directories


def page(stories: Sequence[RunHistory], *, refresh: int = 0, trusted: Collection[str] = ()) -> str:
    """The whole HTML document. `refresh` is the number of seconds after which it reloads itself; 0
    means never. `trusted` names the programs that may be imported and asked about their runs.
    Raises ConvoyError, with the command to install it, if Jinja2 or matplotlib is missing."""
    try:
        import jinja2
        from markupsafe import Markup
    except ImportError:
        text = "reports are written by Jinja2, which is not installed"
        raise ConvoyError(f"{text}: pip install 'convoy-runtime[report]'") from None
    short_names(stories)
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    templates.filters |= {
        "short": short,
        "bytes": lambda size: "" if size is None else shown(int(size)),
    }
    curves = [Markup(figure) for figure in figures(stories)]  # noqa: S704  # made by `charts`, which escapes
    runs = [facts(story, stories, trusted) for story in stories]
    for run in runs:
        run["gantt"] = Markup(run["gantt"])  # noqa: S704  # as above
    names = ", ".join(story.name for story in stories)
    return templates.get_template("page.html").render(
        title=f"Convoy: {names}" if len(stories) < 4 else f"Convoy: {len(stories)} runs",
        made=f"Made {datetime.now(UTC).astimezone().strftime('%Y-%m-%d %H:%M:%S %z')}",
        refresh=refresh,
        runs=runs,
        figures=curves,
        style=Markup((HERE / "page.css").read_text("utf-8")),  # noqa: S704  # a file of this folder
        script=Markup((HERE / "page.js").read_text("utf-8")),  # noqa: S704
    )


def short_names(stories: Sequence[RunHistory]) -> None:
    """Give each run a label for legends: its name without date and time, if these labels are
    distinct."""
    names = [story.name for story in stories]
    short = [STAMP.sub("", name) for name in names]
    if len(set(short)) == len(names):
        names = short
    elif len(set(names)) < len(names):  # runs of one name in different folders
        names = [f"{story.directory.parent.name}/{story.name}" for story in stories]
    for story, name in zip(stories, names, strict=True):
        story.label = name


def short(value: float) -> str:
    """The value with four digits."""
    return f"{value:.4g}" if abs(value) < 1e5 else f"{value:.0f}"
