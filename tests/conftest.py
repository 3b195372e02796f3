"""Shared by all tests: one thread each, and no test that is skipped in silence where it should have run."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from ckptlib import doctor

torch.set_num_threads(1)  # test processes run side by side
# The first backward decides which devices autograd starts threads for. In a build for CUDA, a fake one in a measurement
# would start some, and no process that is forked later could run another. A plain one starts none.
torch.ones(1, requires_grad=True).sum().backward()
# How long an example takes says nothing here. In CI, a new failure comes from the change, and not from a new example.
settings.register_profile("busy machine", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("busy machine")

CHECKS = {
    "bubblewrap": lambda: doctor.bubblewrap().ok,
    "chromium": lambda: doctor.chromium().ok,
    "make": lambda: shutil.which("make") is not None,
}


def _need(component: str) -> None:
    if CHECKS[component]():
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{component} is missing: .ci/run should have installed it")
    pytest.skip(f"{component} is missing: see `ckptlib doctor`")


@pytest.fixture(scope="session")
def need():
    """`need("bubblewrap")` skips the test where that does not work; under CI=true the test fails instead."""
    return _need


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's folder."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def browser() -> Iterator:
    """Chromium, for tests with the mark `browser`: they are skipped, or fail under CI=true, where there is none."""
    from playwright.sync_api import sync_playwright

    flags = "--no-sandbox --disable-gpu --disable-background-networking --disable-sync --no-first-run".split()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=doctor.find_chromium(), args=flags)
        yield started
        started.close()


# ---- several processes ----
# What is slow comes first, because what begins last must be short. A test that is marked `slow` itself is dealt out
# alone. The other tests of a file stay in one process, because they share what is expensive to set up.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    for item in items:
        alone = any(mark.name == "slow" for mark in item.own_markers)
        if not alone and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.location[0]))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """By now xdist has dealt: the group's name at the end of an id would keep it from being pasted after `pytest`."""
    for item in session.items:
        if group := item.get_closest_marker("xdist_group"):
            item._nodeid = item.nodeid.removesuffix(f"@{group.args[0]}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("browser"):
        _need("chromium")
    if item.get_closest_marker("gpu") and not torch.accelerator.is_available():
        pytest.skip("needs a real accelerator")  # no package brings one, so this is a skip in CI too
