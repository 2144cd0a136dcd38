"""One SGLang server as a child process: start, wait until it answers, stop.

For demonstrations, tests and measurements. It knows how to run the engine, not what a
constraint is.

::

    with Server("checkpoint", constrained_decoding="lave") as server:
        requests.post(f"{server.url}/generate", json=...)
"""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil
import yaml

from lave_plugin.engines.sglang import cpu

POLL_SECONDS = 0.25

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


class ServerError(RuntimeError):
    """The server did not come up; the message ends with the tail of its log."""


class Server:
    """``python -m sglang.launch_server`` on 127.0.0.1.

    Args:
        model_path: Folder of the checkpoint.
        algorithm, algorithm_config: ``--dllm-algorithm`` and the content of the file behind
            ``--dllm-algorithm-config``.
        constrained_decoding: Value of the plugin's ``--constrained-decoding``; None leaves the flag
            out, which an engine without the plugin needs.
        plugins: False starts the engine with every plugin switched off.
        args: More server arguments. They come last, so they win over what stands here.
        device: ``"cpu"`` adds what :mod:`lave_plugin.engines.sglang.cpu` says; anything else runs
            SGLang as it is installed.
        port: 0 takes a free one.
        env: More environment variables.
        log_path: Where the server's output goes. Default: a file in the server's temporary folder,
            which is removed by :meth:`stop`.
        ready_timeout, stop_timeout: Bounds in seconds. A stop sends SIGTERM, which SGLang takes 1
            to 6 s to obey, and after ``stop_timeout`` SIGKILL (a request that never ends holds a
            SIGTERM up).
        on_progress: Called about four times a second until the server answers, with the seconds
            that have passed and the last line of the log.
    """

    def __init__(
        self,
        model_path: str | Path,
        *,
        algorithm: str = "LowConfidence",
        algorithm_config: Mapping | None = None,
        constrained_decoding: str | None = None,
        plugins: bool = True,
        max_running_requests: int = 8,
        args: Sequence[str] = (),
        device: str = "cpu",
        port: int = 0,
        env: Mapping[str, str] | None = None,
        log_path: str | Path | None = None,
        ready_timeout: float = 300.0,
        stop_timeout: float = 15.0,
        on_progress: Callable[[float, str], None] | None = None,
    ):
        self.model_path = Path(model_path)
        self.algorithm = algorithm
        self.algorithm_config = algorithm_config
        self.constrained_decoding = constrained_decoding
        self.plugins = plugins
        self.max_running_requests = max_running_requests
        self.args = list(args)
        self.device = device
        self.wanted_port = port
        self.port = port
        self.env = dict(env or {})
        self.wanted_log_path = Path(log_path) if log_path else None
        self.log_path = self.wanted_log_path
        self.ready_timeout = ready_timeout
        self.stop_timeout = stop_timeout
        self.on_progress = on_progress
        self.process: subprocess.Popen | None = None
        self._folder: tempfile.TemporaryDirectory | None = None

    @property
    def url(self) -> str:
        """Root of the native API; the OpenAI one lies under ``/v1``."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> "Server":
        return self.start()

    def __exit__(self, *exception) -> None:
        self.stop()

    def start(self) -> "Server":
        """Start the server and return once it answers.

        Raises:
            ServerError: It ended, or was not ready in time. It is stopped by then.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="lave-server-")
        folder = Path(self._folder.name)
        self.log_path = self.wanted_log_path or folder / "server.log"
        self.port = self.wanted_port or free_port()
        try:
            with open(self.log_path, "wb") as log:
                # A session of its own: its process group is then exactly the server's
                # processes, and a Ctrl-C at the terminal reaches only us.
                self.process = subprocess.Popen(
                    self.command(folder),
                    env=self.environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=_end_with_parent if sys.platform == "linux" else None,
                )
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def command(self, folder: Path) -> list[str]:
        """The command line; writes the algorithm's configuration into ``folder``."""
        command = [sys.executable, "-m", "sglang.launch_server"]
        if self.device == "cpu":
            command += cpu.SERVER_ARGS
        command += ["--model-path", str(self.model_path)]
        command += ["--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--dllm-algorithm", self.algorithm]
        command += ["--max-running-requests", str(self.max_running_requests)]
        if self.algorithm_config is not None:
            path = folder / "algorithm.yaml"
            path.write_text(yaml.safe_dump(dict(self.algorithm_config)))
            command += ["--dllm-algorithm-config", str(path)]
        if self.constrained_decoding is not None:
            command += ["--constrained-decoding", self.constrained_decoding]
        return command + self.args

    def environment(self) -> dict[str, str]:
        env = {**os.environ, **self.env}
        if not self.plugins:
            env["SGLANG_PLUGINS"] = "none"
        return cpu.environment(env) if self.device == "cpu" else env

    def stop(self) -> None:
        """End the server's processes, and only those; harmless when there are none."""
        if self.process is not None:
            # SGLang's first process takes the others down in order. A SIGTERM to those
            # as well would read as a crash and start five seconds of diagnostics.
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(self.stop_timeout)
            for sign in (signal.SIGTERM, signal.SIGKILL):  # to whatever is left
                if self._wait_until_gone(1.0):
                    break
                self._signal_group(sign)
            self._wait_until_gone(5.0)
            self.process = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of the log."""
        if self.log_path is None or not self.log_path.exists():
            return ""
        with open(self.log_path, "rb") as log:
            log.seek(max(0, os.path.getsize(self.log_path) - 32768))
            text = log.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def processes(self) -> list[psutil.Process]:
        """The living processes of the server's group."""
        if self.process is None:
            return []
        found = []
        for process in psutil.process_iter():
            try:
                in_group = os.getpgid(process.pid) == self.process.pid
                if in_group and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.NoSuchProcess, ProcessLookupError, PermissionError):
                continue
        return found

    def _wait_until_ready(self) -> None:
        started = time.monotonic()
        while (elapsed := time.monotonic() - started) < self.ready_timeout:
            if self.process.poll() is not None:
                raise ServerError(
                    f"The SGLang server ended with status {self.process.returncode} before it "
                    f"was ready. The end of its log:\n{self.log_tail()}"
                )
            if self._answers():
                return
            if self.on_progress is not None:
                self.on_progress(elapsed, self.log_tail(1))
            time.sleep(POLL_SECONDS)
        raise ServerError(
            f"The SGLang server was not ready after {self.ready_timeout:.0f} s. "
            f"The end of its log:\n{self.log_tail()}"
        )

    def _answers(self) -> bool:
        # /health makes the engine generate a token; it is 503 until the warm-up is over.
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=10) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def _signal_group(self, sign: signal.Signals) -> None:
        # Ask for members first: while one lives, the group's number is ours and nobody else's.
        if self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, sign)

    def _wait_until_gone(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.process.poll()  # reaps the child, or it would stay a zombie
            if not self.processes():
                return True
            time.sleep(POLL_SECONDS)
        return False


def _end_with_parent() -> None:
    # Runs in the child. We may be killed without a chance to stop it; the kernel then sends
    # it this signal (also when the thread that called `start` ends, so don't use a brief one).
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def free_port() -> int:
    """A TCP port on 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
