"""A local Flower deployment: processes that a test starts, uses, and ends in any case."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from mechanisms.flower import APP

CONNECTION = """
[superlink.here]
address = "127.0.0.1:{port}"
insecure = true
"""

# the program ends with its standard input, that is with the test, even if the test is killed
WATCHED = '"$@" & child=$!; read -r _; kill "$child"; wait "$child"'


def free_ports(count):
    held = [socket.socket() for _ in range(count)]
    try:
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()


class Deployment:
    """A SuperLink, and a SuperNode for each node configuration."""

    def __init__(self, home, nodes):
        self.home = Path(home)
        self.home.mkdir()
        self.link, *ports = free_ports(1 + len(nodes))
        # no other process has this directory in its environment
        self.environment = {
            **{name: value for name, value in os.environ.items() if "proxy" not in name.lower()},
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(APP.parent.parent), os.environ.get("PYTHONPATH", "")]),
            "OMP_NUM_THREADS": "1",
        }
        (self.home / "config.toml").write_text(CONNECTION.format(port=self.link))
        self.started = []
        here = ["--insecure", "--host", "127.0.0.1"]
        try:
            self._start(
                "flower-superlink", *here, "--port", str(self.link), "--disable-runtime-dependency-installation"
            )
            self._until_open(self.link)
            for port, node in zip(ports, nodes, strict=True):
                config = " ".join(f"{name}={_toml(value)}" for name, value in node.items())
                to = ["--superlink", f"127.0.0.1:{self.link}", "--port", str(port), "--node-config", config]
                self._start("flower-supernode", *here, *to)
        except BaseException:
            self.stop()
            raise

    def _start(self, program, *arguments):
        log = self.home / f"{len(self.started)}.log"
        with open(log, "wb") as stream:
            process = subprocess.Popen(
                ["sh", "-c", WATCHED, "sh", program, *arguments],
                env=self.environment,
                cwd=self.home,
                stdin=subprocess.PIPE,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started.append((process, log))

    def _until_open(self, port, seconds=60):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.1)
        raise AssertionError(self.logs())

    def run(self, options, seconds=90):
        """Run the app to its end; returns the log of the server, and that of all processes."""
        config = " ".join(f"{name}={_toml(value)}" for name, value in options.items())
        done = subprocess.run(
            ["flwr", "run", str(APP), "here", "--stream", "--run-config", config],
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
        return done.stdout + done.stderr

    def logs(self):
        return "\n".join(log.read_text(errors="replace") for _, log in self.started)

    def stop(self):
        """End all processes, and those that they started."""
        for process, _ in reversed(self.started):
            process.stdin.close()
        for process, _ in self.started:
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
        until = time.monotonic() + 20
        while (left := self.left()) and time.monotonic() < until:
            for number in left:
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            time.sleep(0.05)
        for process, _ in self.started:
            process.wait(5)

    def left(self):
        """Processes that carry this deployment's environment."""
        mark, found = f"FLWR_HOME={self.home}\0".encode(), []
        for entry in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if mark in entry.read_bytes():
                    found.append(int(entry.parent.name))
        return found


def _toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str | Path) else repr(value)


@contextmanager
def deployment(home, nodes):
    started = Deployment(home, nodes)
    try:
        yield started
    finally:
        started.stop()
