"""A real kubectl reads the objects that Convoy makes. Its server is a stand-in that knows only the
names of kinds."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from runtime.cluster.kubernetes.objects import job_set, pods_of, secret
from runtime.config.file import load
from tests.helpers.support import configure, environment, runtime_command
from tests.journeys.clusters.test_kubernetes import FULL, far

GROUP = {"groupVersion": "jobset.x-k8s.io/v1alpha2", "version": "v1alpha2"}
VERBS = ["create", "get", "list", "delete"]
PAGES = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [{"name": "jobset.x-k8s.io", "versions": [GROUP], "preferredVersion": GROUP}],
    },
    "/api/v1": {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [
            {
                "name": "secrets",
                "singularName": "",
                "namespaced": True,
                "kind": "Secret",
                "verbs": VERBS,
            }
        ],
    },
    "/apis/jobset.x-k8s.io/v1alpha2": {
        "kind": "APIResourceList",
        "groupVersion": "jobset.x-k8s.io/v1alpha2",
        "resources": [
            {
                "name": "jobsets",
                "singularName": "",
                "namespaced": True,
                "kind": "JobSet",
                "verbs": VERBS,
            }
        ],
    },
}


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = PAGES.get(self.path.partition("?")[0])
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(found or {}).encode())

    def log_message(self, *_: object) -> None:
        pass


needed = pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl is installed")


@needed
def test_kubectl_reads_the_objects_of_a_run_unchanged(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text(far(more=FULL))
    config = load(tmp_path / "cluster.toml")
    assert config.launcher.kubernetes is not None
    made = job_set("convoy-x", config.machine, "10.0.0.1:4000", config.launcher.kubernetes)
    key = secret(pods_of("convoy-x", config.machine), {"w0": "a", "w1": "b"}, "some-uid")
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            words = [
                "kubectl",
                f"--server=http://127.0.0.1:{server.server_port}",
                f"--cache-dir={tmp_path}",
            ]
            words += ["create", "--dry-run=client", "--validate=false", "-o", "json", "-f", "-"]
            for thing in (made, key):
                done = subprocess.run(
                    words,
                    input=json.dumps(thing),
                    env=environment() | {"KUBECONFIG": "/dev/null"},
                    capture_output=True,
                    text=True,
                    timeout=60,
                )
                assert done.returncode == 0, done.stderr
                read = json.loads(done.stdout)
                read["metadata"].pop("namespace", None)
                assert read == thing
        finally:
            server.shutdown()


@needed
@pytest.mark.slow
def test_a_cluster_that_kubectl_does_not_reach_is_reported_in_one_line(tmp_path: Path) -> None:
    path = configure(tmp_path, "sync", workers=2, more=far())
    environ = environment() | {"KUBECONFIG": "/dev/null"}
    done = subprocess.run(
        runtime_command("up", path.name),
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert "kubectl create: error: " in line
