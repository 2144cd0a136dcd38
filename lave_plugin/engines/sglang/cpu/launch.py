"""``sglang.launch_server`` on a CPU: the same arguments, the same process.

::

    python -m lave_plugin.engines.sglang.cpu.launch --model-path CHECKPOINT \\
        --dllm-algorithm LowConfidence --constrained-decoding lave

Arguments given here come after those of :data:`SERVER_ARGS` and so win.
"""

import os
import sys

from lave_plugin.engines.sglang.cpu import SERVER_ARGS, environment


def main() -> None:
    command = [sys.executable, "-m", "sglang.launch_server", *SERVER_ARGS, *sys.argv[1:]]
    os.execve(sys.executable, command, environment())


if __name__ == "__main__":
    main()
