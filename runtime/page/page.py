"""The report as one HTML page that holds everything it needs. A template gives its form, `facts`
its contents."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runtime.errors import ConvoyError
from runtime.page.chart_data import as_script, chart_data
from runtime.page.charts import figures
from runtime.page.curves import charts, time_unit
from runtime.page.differing_keys import differing
from runtime.page.report_facts import facts
from runtime.page.run_history import RunHistory
from runtime.plan.forecast import shown

HERE = Path(__file__).parent
LICENCE = "uplot/LICENSE"
STYLES = ("uplot/uPlot.min.css", "page.css")
SCRIPTS = ("uplot/uPlot.iife.min.js", "charts.js", "histograms.js", "page.js", "live.js")
STAMP = re.compile(r"^\d{8}-\d{6}-")  # of run directories


def page(
    stories: Sequence[RunHistory],
    *,
    refresh: int = 0,
    trusted: Collection[str] = (),
    static: bool = False,
) -> str:
    """The whole HTML document. `refresh` is the number of seconds after which its script asks for
    new points; 0 means never. `trusted` names the programs that may be imported and asked about
    their runs. A `static` page has drawings and no script. Raises ConvoyError, with the command to
    install it, if Jinja2 is missing, or matplotlib and the page has drawings."""
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
    runs = [facts(story, stories, trusted) for story in stories]
    for run in runs:
        run["gantt"] = Markup(run["gantt"])  # noqa: S704  # made by `charts`, which escapes
    drawn = figures(charts(stories), time_unit(stories)) if static else []
    data = {} if static else chart_data(stories, refresh)
    names = ", ".join(story.name for story in stories)
    return templates.get_template("page.html").render(
        title=f"Convoy: {names}" if len(stories) < 4 else f"Convoy: {len(stories)} runs",
        made=f"Made {datetime.now(UTC).astimezone().strftime('%Y-%m-%d %H:%M:%S %z')}",
        refresh=refresh,
        runs=runs,
        differing=differing([run["keys"] for run in runs]),
        columns=_columns(runs),
        figures=[Markup(figure) for figure in drawn],  # noqa: S704  # as above
        data=data,
        histograms=any(story.histograms for story in stories),
        json=Markup(as_script(data)),  # noqa: S704  # nothing in it ends its element
        style=Markup(_files(STYLES)),  # noqa: S704  # files of this folder
        script=Markup("" if static else _script()),  # noqa: S704
    )


def _columns(runs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The columns of the table of runs: the keys of all figures with their labels. The label of a
    best score names the iteration of one run, and is shortened."""
    labels = dict[str, str]()
    for run in runs:
        for figure in run["headline"]:
            labels.setdefault(figure.key, figure.label.partition(",")[0])
    return labels


def _script() -> str:
    """The scripts of the page, after the licence of uPlot: each copy has to carry it."""
    return f"/* {_files([LICENCE])} */\n{_files(SCRIPTS)}"


def _files(names: Sequence[str]) -> str:
    return "\n".join((HERE / name).read_text("utf-8") for name in names)


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
