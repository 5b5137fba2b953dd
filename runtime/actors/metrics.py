"""Metrics of one process and the pages that show them. The only file that imports
prometheus_client.

Every metric is called `convoy_<name>` and has the label `role`; metrics of an actor also have
`actor`. Look up a child (the series for one set of labels) once and keep it. An increment of a kept
child costs 0.4 us; looking it up costs three times that.
"""

from __future__ import annotations

import asyncio
import errno
import json
import socket
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import prometheus_client as prometheus
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from runtime.errors import LaunchError
from runtime.reasons import reason
from runtime.serving.hosts import Hosts
from runtime.serving.http_server import Application, Server
from runtime.serving.readers import Readers
from runtime.serving.visits import Visits
from runtime.terminal_text import bounded, printable

Counter = prometheus.Counter
Gauge = prometheus.Gauge
Histogram = prometheus.Histogram
Summary = prometheus.Summary

# buckets of histograms, in seconds; most series of a role are these, once per phase
SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)

# without this call, each counter has one more series, which no board reads
prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]

STRANGE = (
    b"These pages are not served under the name %s: use the machine's address or name, or "
    b"add that name to metrics.hosts.\n"
)

# yields (label values, current value) for each series
Samples = Callable[[], Iterable[tuple[tuple[str, ...], float]]]
Family = type[CounterMetricFamily] | type[GaugeMetricFamily]


class _Kept:
    """A collector for the registry, whose samples are kept elsewhere."""

    def __init__(
        self, kind: Family, name: str, help_text: str, labels: tuple[str, ...], samples: Samples
    ) -> None:
        self._kind = kind
        self._named = (name, help_text)
        self._labels = labels
        self._samples = samples

    def describe(self) -> list[CounterMetricFamily | GaugeMetricFamily]:
        """Return the metric without values, so that the registry sees that its name is taken."""
        return [self._kind(*self._named, labels=self._labels)]

    def collect(self) -> list[CounterMetricFamily | GaugeMetricFamily]:
        """Return the metric with its current values."""
        (family,) = self.describe()
        for values, count in self._samples():
            family.add_metric(values, count)
        return [family]


class _Unheard:
    """A child that drops all values, used when observation is off (`run.observe`)."""

    def inc(self, amount: float = 1) -> None:
        """Do nothing."""

    def set(self, value: float) -> None:
        """Do nothing."""

    def observe(self, amount: float) -> None:
        """Do nothing."""

    def set_function(self, function: Callable[[], float]) -> None:
        """Do nothing."""


_UNHEARD = _Unheard()


class Metrics:
    """The metrics registry of one process. Counts nothing if it is not `observed`."""

    def __init__(self, *, observed: bool = True) -> None:
        self.registry = prometheus.CollectorRegistry()
        self._known: dict[str, Any] = {}
        self._observed = observed

    def counter(self, name: str, help_text: str, **labels: str) -> Counter:
        """Return the child of counter `convoy_<name>_total` for these labels."""
        child: Counter = self._child(prometheus.Counter, name, help_text, labels)
        return child

    def tally(self, name: str, help_text: str, labels: tuple[str, ...], samples: Samples) -> None:
        """Register a counter `convoy_<name>_total` whose values are kept elsewhere. `samples` is
        called when a metrics page is made, in the page's thread."""
        if self._observed:
            self.registry.register(
                _Kept(CounterMetricFamily, f"convoy_{name}", help_text, labels, samples)
            )

    def reading(self, name: str, help_text: str, labels: tuple[str, ...], samples: Samples) -> None:
        """Register a gauge `convoy_<name>` whose values are kept elsewhere, like `tally`. A series
        is no longer shown once `samples` leaves it out."""
        if self._observed:
            self.registry.register(
                _Kept(GaugeMetricFamily, f"convoy_{name}", help_text, labels, samples)
            )

    def of_process(self) -> None:
        """Register the processor time, memory, open descriptors and start time of this process, as
        `convoy_process_...`. Only Linux has them."""
        if self._observed:
            prometheus.ProcessCollector(namespace="convoy", registry=self.registry)

    def gauge(self, name: str, help_text: str, **labels: str) -> Gauge:
        """Return the child of gauge `convoy_<name>` for these labels."""
        child: Gauge = self._child(prometheus.Gauge, name, help_text, labels)
        return child

    def histogram(
        self, name: str, help_text: str, buckets: Iterable[float] = SECONDS, **labels: str
    ) -> Histogram:
        """Return the child of histogram `convoy_<name>` for these labels."""
        child: Histogram = self._child(
            prometheus.Histogram, name, help_text, labels, buckets=tuple(buckets)
        )
        return child

    def summary(self, name: str, help_text: str, **labels: str) -> Summary:
        """Return the child of summary `convoy_<name>` for these labels: a count and a sum. For
        metrics whose histogram would have too many series."""
        child: Summary = self._child(prometheus.Summary, name, help_text, labels)
        return child

    def info(self, name: str, help_text: str, **facts: str) -> None:
        """Set a gauge `convoy_<name>_info` to 1, with the facts as its labels."""
        self.gauge(f"{name}_info", help_text, **facts).set(1)

    def text(self) -> str:
        """Return the whole registry in Prometheus' text format."""
        return prometheus.generate_latest(self.registry).decode()

    def _child(
        self, kind: Any, name: str, help_text: str, labels: dict[str, str], **options: Any
    ) -> Any:
        if not self._observed:
            return _UNHEARD
        metric = self._known.get(name)
        if metric is None:
            metric = kind(
                name,
                help_text,
                tuple(labels),
                namespace="convoy",
                registry=self.registry,
                **options,
            )
            self._known[name] = metric
        return metric.labels(**labels) if labels else metric


class Pages:
    """The HTTP pages of a process: `/metrics`, further JSON pages and `applications` (path ->
    application).

    They are served to the process's own user and to `readers`. `names` are host names by which the
    pages may be called, in addition to the machine's own. `key` is the configuration key of the
    port, for error texts. Close the pages before the process ends.

    Raises LaunchError if the port cannot be opened.
    """

    def __init__(
        self,
        metrics: Metrics,
        address: str,
        port: int,
        readers: Iterable[str] = (),
        names: Iterable[str] = (),
        key: str = "metrics.port",
        applications: Mapping[str, Application] = MappingProxyType({}),
        **json_pages: Callable[[], Any],
    ) -> None:
        exposition = prometheus.make_wsgi_app(metrics.registry)
        self.visits = Visits()
        hosts = Hosts(names)

        def answer(environ: dict[str, Any], start: Any) -> Any:
            if not hosts.admits(host := environ.get("HTTP_HOST", "")):
                start("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
                return [STRANGE % printable(bounded(host, 80)).encode()]
            path = environ.get("PATH_INFO", "").strip("/")
            if path in applications:
                return applications[path](environ, start)
            self.visits.note(path, environ["REMOTE_ADDR"], asyncio.get_running_loop().time())
            page = json_pages.get(path)
            if page is None:
                return exposition(environ, start)
            start("200 OK", [("Content-Type", "application/json; charset=utf-8")])
            return [json.dumps(page()).encode()]

        try:
            self._server = Server(answer, address, port, Readers(readers))
        except OSError as error:
            raise LaunchError(
                f"metrics cannot listen on {address}:{port}: {reason(error)}{_mend(error, key)}"
            ) from None
        self.port = self._server.port

    def close(self) -> None:
        """Stop serving and free the port."""
        self._server.close()


def _mend(error: OSError, key: str) -> str:
    """Return what to change so that a page can listen, as far as the error shows it."""
    if error.errno in (errno.EADDRINUSE, errno.EACCES):
        return f"; choose another {key} in cluster.toml, or 0 for any free one"
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return (
            "; give metrics.address, or the address of the [[machine]], one that this machine has"
        )
    return ""


def discovery(targets: Iterable[tuple[str, dict[str, str]]]) -> list[dict[str, Any]]:
    """Return the full list of (host:port, labels) in the format of Prometheus http_sd."""
    return [{"targets": [target], "labels": labels} for target, labels in targets]
