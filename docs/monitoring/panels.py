"""Rows, panels and queries of a board, and their form as Grafana's JSON; `boards` uses them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as words
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
WIDTH = 24  # of Grafana's grid


@dataclass(frozen=True)
class Query:
    """A PromQL expression and the legend of its lines."""

    expression: str
    legend: str = ""


@dataclass(frozen=True)
class Lines:
    """Values over time, of one query or of several.

    `unit` is Grafana's name of the unit. `about` is the description for users.
    """

    title: str
    query: Query | tuple[Query, ...]
    unit: str = "short"
    about: str = ""
    width: int = 8
    stacked: bool = False
    logarithmic: bool = False

    @property
    def queries(self) -> tuple[Query, ...]:
        """All queries of the panel."""
        return self.query if isinstance(self.query, tuple) else (self.query,)

    def built(self) -> timeseries.Panel:
        """The panel."""
        panel = (
            timeseries.Panel()
            .title(self.title)
            .description(self.about)
            .datasource(SOURCE)
            .unit(self.unit)
        )
        panel = (
            panel.span(self.width).height(8).fill_opacity(20 if self.stacked else 5).line_width(1)
        )
        panel = (
            panel.show_points(words.VisibilityMode.AUTO).min(0) if not self.logarithmic else panel
        )
        panel = panel.legend(
            common.VizLegendOptions().show_legend(True).placement(words.LegendPlacement.BOTTOM)
        )
        panel = panel.tooltip(common.VizTooltipOptions().mode(words.TooltipDisplayMode.MULTI))
        if self.stacked:
            panel = panel.stacking(common.StackingConfig().mode(words.StackingMode.NORMAL))
        if self.logarithmic:
            scale = common.ScaleDistributionConfig().type(words.ScaleDistribution.LOG).log(10)
            panel = panel.scale_distribution(scale)
        for query in self.queries:
            panel = panel.with_target(_target(query))
        return panel


@dataclass(frozen=True)
class Number:
    """The present value, or with `named` its labels in the form of the legend."""

    title: str
    query: Query
    unit: str = "short"
    about: str = ""
    width: int = 4
    named: bool = False

    @property
    def queries(self) -> tuple[Query, ...]:
        """The only query of the panel."""
        return (self.query,)

    def built(self) -> stat.Panel:
        """The panel."""
        panel = (
            stat.Panel()
            .title(self.title)
            .description(self.about)
            .datasource(SOURCE)
            .unit(self.unit)
        )
        panel = panel.span(self.width).height(4).graph_mode(words.BigValueGraphMode.NONE)
        mode = words.BigValueTextMode.NAME if self.named else words.BigValueTextMode.VALUE
        panel = panel.text_mode(mode).color_mode(words.BigValueColorMode.NONE)
        panel = panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        return panel.with_target(_target(self.query, instant=True))


@dataclass(frozen=True)
class Rows:
    """The present series, one line for each, with their labels as columns."""

    title: str
    query: Query
    about: str = ""
    width: int = 12

    @property
    def queries(self) -> tuple[Query, ...]:
        """The only query of the panel."""
        return (self.query,)

    def built(self) -> table.Panel:
        """The panel."""
        panel = (
            table.Panel()
            .title(self.title)
            .description(self.about)
            .datasource(SOURCE)
            .span(self.width)
            .height(8)
        )
        return panel.with_target(_target(self.query, instant=True).format(PromQueryFormat.TABLE))


Panel = Lines | Number | Rows


@dataclass(frozen=True)
class Row:
    """The title of a row; the panels after it fill it from left to right."""

    title: str


@dataclass(frozen=True)
class Board:
    """A board: rows, each followed by its panels. It is for the run that its reader chooses, or for
    all runs (`of_all`)."""

    name: str
    title: str
    about: str
    parts: tuple[Row | Panel, ...]
    of_all: bool = False

    @property
    def panels(self) -> Sequence[Panel]:
        """All panels of the board."""
        return [part for part in self.parts if not isinstance(part, Row)]

    def json(self) -> str:
        """The JSON that Grafana imports."""
        made = (
            dashboard.Dashboard(f"Convoy: {self.title}")
            .uid(f"convoy-{self.name}")
            .description(self.about)
        )
        made = made.tags(["convoy"]).refresh("5s").time("now-15m", "now").timezone("browser")
        made = made.tooltip(models.DashboardCursorSync.CROSSHAIR)
        made = made.with_variable(
            dashboard.DatasourceVariable("datasource").type("prometheus").label("Prometheus")
        )
        if not self.of_all:
            made = made.with_variable(_runs())
        links = (
            dashboard.DashboardLink("Convoy's boards")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags(["convoy"])
        )
        made = made.link(links.as_dropdown(True).keep_time(True).include_vars(True))
        for part in self.parts:
            made = (
                made.with_row(dashboard.Row(part.title))
                if isinstance(part, Row)
                else made.with_panel(part.built())
            )
        return JSONEncoder(sort_keys=True, indent=2).encode(made.build()) + "\n"


def _runs() -> dashboard.QueryVariable:
    """The variable `$run`: the newest run, unless the user chooses another."""
    query = (
        dashboard.QueryVariable("run")
        .label("Run")
        .datasource(SOURCE)
        .query("label_values(convoy_run_info, run)")
    )
    return query.refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(
        models.VariableSort.ALPHABETICAL_DESC
    )


def _target(query: Query, *, instant: bool = False) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expression).legend_format(query.legend or "__auto")
    return target.datasource(SOURCE).instant() if instant else target.datasource(SOURCE).range()
