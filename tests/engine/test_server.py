"""Starting and stopping the engine as a child process.

Most tests put a few lines of Python in the engine's place: what is asked is whether the
right processes end, in time, and what the user is told. For the real one see ``test_entrances.py``.
"""

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest
from launches import living

from lave_plugin.engines.sglang import cpu
from lave_plugin.engines.sglang.server import Server, ServerError

ANSWERS_HEALTH = """
    import http.server, signal, subprocess, sys

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()

    {before}
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    http.server.HTTPServer(("127.0.0.1", {port}), Handler).serve_forever()
"""
IGNORES_SIGTERM = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


class PretendServer(Server):
    """A ``Server`` that runs a Python script instead of the engine."""

    script: str

    def command(self, folder):
        script = self.script.replace("{port}", str(self.port))
        return [sys.executable, "-u", "-c", textwrap.dedent(script)]


def pretend(script: str, **options) -> PretendServer:
    server = PretendServer("no-model", device="none", **options)
    server.script = script
    return server


def test_a_server_that_dies_is_reported_with_the_tail_of_its_log():
    server = pretend("import sys; print('the last words'); sys.exit(3)")
    with pytest.raises(ServerError, match=r"(?s)status 3 before it was ready.*the last words"):
        server.start()
    assert server.process is None


def test_a_server_that_is_never_ready_is_stopped_after_the_bound():
    server = pretend("import time; print('thinking'); time.sleep(60)", ready_timeout=1.0)
    started = time.monotonic()
    with pytest.raises(ServerError, match=r"(?s)not ready after 1 s.*thinking"):
        server.start()
    assert time.monotonic() - started < 10
    assert server.process is None


@pytest.mark.parametrize("before", ["pass", IGNORES_SIGTERM], ids=["obeys", "ignores SIGTERM"])
def test_stop_ends_the_whole_group_within_its_bounds(before):
    script = ANSWERS_HEALTH.replace("{before}", before)
    with pretend(script, stop_timeout=2.0) as server:
        processes = server.processes()
        assert len(processes) == 2
        started = time.monotonic()
    assert time.monotonic() - started < 8
    assert not living(processes)


def test_stop_leaves_other_processes_alone():
    bystander = psutil.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        with pretend(ANSWERS_HEALTH.replace("{before}", "pass")):
            pass
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_an_interrupt_while_it_starts_leaves_no_process():
    seen = []

    def interrupt(elapsed, line):
        seen.extend(server.processes())
        raise KeyboardInterrupt

    server = pretend("import time; time.sleep(60)", on_progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        server.start()
    assert seen and not living(seen)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's part is Linux's own")
def test_a_server_does_not_outlive_a_parent_that_is_killed(tmp_path):
    parent = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_server import pretend
        server = pretend("import time; time.sleep(60)", on_progress=lambda *_: print(
            server.process.pid, flush=True))
        server.start()
    """
    with psutil.Popen(
        [sys.executable, "-c", textwrap.dedent(parent)], stdout=subprocess.PIPE, text=True
    ) as process:
        server = psutil.Process(int(process.stdout.readline()))
        process.kill()
    psutil.wait_procs([server], timeout=5)
    assert not living([server])


def test_progress_brings_the_time_and_the_last_line_of_the_log():
    told = []
    server = pretend(
        "import time; print('loading', flush=True); time.sleep(60)",
        ready_timeout=1.0,
        on_progress=lambda *report: told.append(report),
    )
    with pytest.raises(ServerError):
        server.start()
    times, lines = zip(*told, strict=True)
    assert list(times) == sorted(times) and lines[-1] == "loading"


def test_a_server_can_be_started_again(tmp_path):
    server = pretend(ANSWERS_HEALTH.replace("{before}", "pass"), log_path=tmp_path / "log")
    for _ in range(2):
        with server:
            assert server.processes()


def test_the_command_line_and_the_environment_carry_what_was_asked(tmp_path):
    server = Server(
        "folder",
        algorithm_config={"threshold": 0.7, "lave": {"budget": 64}},
        constrained_decoding="lave",
        plugins=False,
        env={"PYTHONPATH": "mine", "OMP_NUM_THREADS": "2"},
        args=["--dtype", "bfloat16"],
    )
    command = server.command(tmp_path)
    assert command[-2:] == ["--dtype", "bfloat16"]
    assert command[command.index("--constrained-decoding") + 1] == "lave"
    config = Path(command[command.index("--dllm-algorithm-config") + 1])
    assert config.read_text() == "lave:\n  budget: 64\nthreshold: 0.7\n"
    env = server.environment()
    assert env["SGLANG_PLUGINS"] == "none"
    assert env["OMP_NUM_THREADS"] == "2"  # the user's own word
    assert env["PYTHONPATH"].endswith("mine")


def test_the_stubs_come_onto_the_path_on_a_cpu_only():
    assert str(cpu.STUBS) in Server("folder", device="cpu").environment()["PYTHONPATH"]
    assert str(cpu.STUBS) not in Server("folder", device="cuda").environment().get("PYTHONPATH", "")
    assert not [path for path in sys.path if path == str(cpu.STUBS)]
