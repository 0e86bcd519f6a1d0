"""One step over 8 devices, and over two processes of 4: the numbers of one device, and no batch gathered."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from parity_tests.updates._mesh_program import HIDDEN, LAYOUTS, WIDTH

ROOT = Path(__file__).parents[2]


def start(devices, *arguments):
    environment = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}", "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen(
        [sys.executable, "-m", "parity_tests.updates._mesh_program", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def results_of(processes):
    try:
        outputs = [process.communicate(timeout=180) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, errors
    return [json.loads(output.splitlines()[-1]) for output, _ in outputs]


@pytest.fixture(scope="module")
def on_8_devices():
    return results_of([start(8)])[0]


def test_the_trajectory_is_that_of_one_device(on_8_devices):
    assert set(on_8_devices) == set(LAYOUTS)
    assert max(case["difference"] for case in on_8_devices.values()) < 1e-12


def test_the_state_is_donated(on_8_devices):
    assert all(case["donated"] for case in on_8_devices.values())


def test_sums_travel_and_the_batch_does_not(on_8_devices):
    """Gradients are summed over the devices, and where the hidden units are spread the sums over them; no more."""
    for case in on_8_devices.values():
        assert {operation for operation, _ in case["travels"]} == {"all-reduce"}
    assert max(size for _, size in on_8_devices["replicated"]["travels"]) == WIDTH * HIDDEN  # the largest weight


def test_two_processes_give_the_same_numbers():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    for result in results_of([start(4, number, port) for number in range(2)]):
        assert result["replicated"]["difference"] < 1e-12
