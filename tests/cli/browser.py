"""A headless Chromium, driven through a pipe (``--remote-debugging-pipe``): nothing to install."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
)
TIMEOUT = 60.0


def find_browser() -> str | None:
    """The path of a Chromium, the one that LAVE_BROWSER names first."""
    named = os.environ.get("LAVE_BROWSER")
    return next(filter(None, map(shutil.which, filter(None, (named, *NAMES)))), None)


class Browser:
    """One page of a browser of its own, which ends with the context.

    Attributes:
        events: what the page has told of itself: errors, console messages, requests.
    """

    def __init__(self, path: str, profile: Path, width: int = 1280, height: int = 1000) -> None:
        self.events: list[dict[str, Any]] = []
        self._command = [
            path,
            "--headless",
            "--no-sandbox",  # as root in a container there is none
            "--disable-gpu",
            "--no-first-run",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
            f"--window-size={width},{height}",
            "about:blank",
        ]
        self._sent = 0
        self._buffer = b""

    def __enter__(self) -> Browser:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        self._in, self._out = ours_in, ours_out

        def as_3_and_4() -> None:
            # By way of numbers that neither of them has.
            commands, answers = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(commands, 3)
            os.dup2(answers, 4)

        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=as_3_and_4,
            close_fds=False,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._session = None
        targets = self.call("Target.getTargets")["targetInfos"]
        (page,) = [target["targetId"] for target in targets if target["type"] == "page"]
        attached = self.call("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *exception) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **parameters) -> dict[str, Any]:
        """A command of the DevTools protocol and its result."""
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._sent:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError("the browser says nothing")
            if not (data := os.read(self._in, 1 << 16)):
                raise RuntimeError("the browser has ended")
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(self, path: Path) -> None:
        """Load a file and wait until it has."""
        self.call("Page.navigate", url=path.resolve().as_uri())
        while self.evaluate("document.readyState") != "complete":
            time.sleep(0.05)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def press(self, key: str) -> None:
        """A key of the keyboard, down and up."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def click(self, x: float, y: float) -> None:
        """The left button at a place of the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def prefer(self, scheme: str) -> None:
        """``light`` or ``dark``."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def resize(self, width: int, height: int) -> None:
        """The size of the window, in pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def screenshot(self) -> bytes:
        """A PNG of the window."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
