"""``lave doctor`` where everything is as it should be, and where a hook no longer fits."""

from __future__ import annotations

import os

import pytest
from launches import MOVED_FUNCTION, install_plugin
from typer.testing import CliRunner

from lave_plugin.cli import app
from lave_plugin.engines.sglang import diagnosis

pytestmark = pytest.mark.engine


def test_a_running_server(lave_server):
    result = CliRunner().invoke(app, ["doctor", "--url", lave_server.url])
    assert result.exit_code == 0, result.output
    assert result.output.count("✔") == 2 + len(diagnosis.SELF_TEST)


def test_the_hooks_stand_here():
    found = diagnosis.hooks()
    assert found.status == "ok", found


def test_a_hook_that_does_not_fit(monkeypatch, tmp_path):
    for name, value in install_plugin(tmp_path, "saboteur", MOVED_FUNCTION).items():
        monkeypatch.setenv(name, value, prepend=os.pathsep)
    found = diagnosis.hooks()
    assert found.status == "fault", found
    assert "get_new_batch_dllm takes (self, plan)" in found.found
    assert found.advice == "Install sglang==0.5.23."
