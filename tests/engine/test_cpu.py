"""What makes SGLang's wheel run without a GPU: the stubs, the lists, the launcher."""

import os
import re
import subprocess
import sys

import pytest

from lave_plugin.engines.sglang import cpu
from lave_plugin.engines.sglang.cpu import launch

LISTS = ("requirements.txt", "requirements-nodeps.txt", "requirements-dev.txt")

IMPORTS = {
    "a kernel may be decorated": """
        import triton, triton.language as tl
        @triton.jit
        def kernel(x, BLOCK: tl.constexpr): ...
        @triton.autotune(configs=[triton.Config({"BLOCK": 1}, num_warps=4)], key=["n"])
        @triton.jit
        def tuned(x): ...
        assert kernel.__name__ == "kernel" and tuned.__name__ == "tuned"
    """,
    "a class may be caught or subclassed": """
        from triton.runtime.autotuner import OutOfResources
        from triton.runtime.jit import JITFunction
        class Mine(JITFunction): ...
        assert issubclass(OutOfResources, Exception)
    """,
    "any kernel may be imported by name": """
        from sgl_kernel import rmsnorm, silu_and_mul
        import sgl_kernel.flash_attn
    """,
    "an image mode may be a default argument": """
        from torchvision.transforms import InterpolationMode
        import torchvision.transforms.v2.functional as F
        def resize(mode=InterpolationMode.BICUBIC): ...
    """,
}


@pytest.mark.parametrize("code", IMPORTS.values(), ids=IMPORTS)
def test_the_stubs_can_be_imported(code):
    env = {**os.environ, "PYTHONPATH": str(cpu.STUBS)}
    code = "if True:" + code
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def names(text: str) -> set[str]:
    lines = (re.match(r"[A-Za-z0-9._-]+", line) for line in text.splitlines())
    return {re.sub(r"[-_.]+", "-", name[0]).lower() for name in lines if name}


def test_every_requirement_is_pinned_and_none_needs_a_gpu():
    here = cpu.STUBS.parent
    wanted = set().union(*(names((here / name).read_text()) for name in LISTS))
    pinned = names((here / "constraints.txt").read_text())
    assert wanted <= pinned
    assert not [name for name in pinned if re.search("nvidia|cuda|triton|flashinfer", name)]


def test_a_users_own_settings_win():
    env = cpu.environment({"OMP_NUM_THREADS": "8", "PYTHONPATH": "mine"})
    assert env["OMP_NUM_THREADS"] == "8"
    assert env["SGLANG_USE_CPU_ENGINE"] == "1"
    assert env["PYTHONPATH"] == f"{cpu.STUBS}{os.pathsep}mine"


def test_the_launcher_becomes_the_server_and_passes_arguments_on(monkeypatch):
    became = {}

    def execve(path, command, env):
        became.update(command=command, env=env)

    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.setattr(sys, "argv", ["launch", "--model-path", "folder", "--dtype", "bfloat16"])
    launch.main()
    assert became["command"][1:3] == ["-m", "sglang.launch_server"]
    assert became["command"][-4:] == ["--model-path", "folder", "--dtype", "bfloat16"]
    assert became["env"]["PYTHONPATH"].startswith(str(cpu.STUBS))
