"""States of pods as Kubernetes writes them, and their descriptions in words."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.cluster.kubernetes.objects import MOST_NAME, unique_name
from runtime.cluster.kubernetes.pods import State, state
from tests.helpers.kubernetes_cluster import expanded


def pod(state: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "status": {"containerStatuses": [{"state": state}], **more}}


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (pod({"running": {}}), State()),
        (
            pod({"terminated": {"reason": "OOMKilled", "exitCode": 137}}),
            State(ended="pod p: OOMKilled (exit code 137)"),
        ),
        (
            pod(
                {"terminated": {"reason": "Error", "exitCode": 137}},
                reason="Evicted",
                message="low on memory",
            ),
            State(ended="pod p: Evicted (exit code 137): low on memory"),
        ),
        (
            pod({"terminated": {"reason": "Error", "exitCode": 143}}),
            State(ended="pod p: Error (exit code 143)", asked=True),
        ),
        (
            pod({"waiting": {"reason": "ErrImagePull", "message": "not found"}}),
            State("pod p waits: ErrImagePull: not found"),
        ),
        (
            pod({"waiting": {"reason": "InvalidImageName"}}),
            State("pod p waits: InvalidImageName", hopeless=True),
        ),
        ({"metadata": {"name": "p"}}, State("pod p waits: ContainerCreating")),
    ],
)
def test_the_state_of_a_pod_is_described_in_words(seen: dict[str, Any], expected: State) -> None:
    assert state(seen) == expected


def test_names_of_objects_are_labels_of_dns_and_differ_each_time() -> None:
    names = {unique_name("20261124-My_Run." + "x" * 80) for _ in range(9)}
    assert len(names) == 9
    assert all(
        name.replace("-", "a").isalnum() and name.islower() and len(name) <= MOST_NAME
        for name in names
    )


def test_the_double_replaces_variables_as_kubernetes_does() -> None:
    assert expanded("$(A) $$(A) $A $(B) $$A", {"A": "1"}) == "1 $(A) $A $(B) $A"
