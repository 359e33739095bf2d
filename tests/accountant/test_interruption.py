"""Ctrl-C while a command is still being imported."""

import ctypes
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from accountant import interruption

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")


def interrupt(arguments, module, heed=signal.SIG_DFL):
    """Exit status and what is written, of a process that is interrupted once it has imported a module.

    Tests that run in the background of a shell ignore Ctrl-C, and what they start would, too.
    """
    command, prepare = [sys.executable, "-X", "importtime", *arguments], partial(signal.signal, signal.SIGINT, heed)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=prepare) as process:
        for line in process.stderr:
            if line.split()[-1] == module:
                process.send_signal(signal.SIGINT)
                break
        rest = process.stderr.read()
    return process.returncode, [line for line in rest.splitlines() if not line.startswith("import time:")]


@pytest.mark.each_run(4)
@pytest.mark.parametrize(
    ("name", "module"),
    [("accountant", "accountant.adjacency"), ("mechanisms", "accountant.adjacency"), ("mechanisms", "accountant")],
)
@pytest.mark.parametrize("script", [False, True])
def test_a_command_ends_with_a_line(tmp_path, name, module, script):
    """A traceback of the import system was shown."""
    arguments = ["-m", name]
    if script:  # as pip writes it
        path = tmp_path / name
        path.write_text(f"import sys\nfrom {name}.cli import main\nsys.exit(main())\n")
        arguments = [str(path)]
    assert interrupt(arguments, module) == (130, [f"{name}: interrupted: nothing was begun"])


def test_other_programs_get_their_interruption():
    status, said = interrupt(["-c", "import accountant"], "accountant.adjacency")
    assert status == -signal.SIGINT
    assert said[-1] == "KeyboardInterrupt"


def test_where_it_is_ignored_it_stays_ignored():
    status, said = interrupt(
        ["-m", "accountant", "--version"],
        "accountant.adjacency",
        signal.SIG_IGN,
    )
    assert (status, said) == (0, [])


@pytest.mark.parametrize(
    ("argv", "given", "command"),
    [
        (["-m"], ["python", "-m", "accountant", "epsilon"], "accountant"),
        (["-m"], ["python", "-X", "dev", "-m", "mechanisms"], "mechanisms"),
        (["-m"], ["python", "-m", "pytest", "accountant"], None),
        (["bin/accountant", "epsilon"], ["python", "bin/accountant", "epsilon"], "accountant"),
        (["bin/mechanisms.exe"], ["bin/mechanisms.exe"], "mechanisms"),
        (["pytest/__main__.py", "tests/accountant"], ["python", "-m", "pytest", "tests/accountant"], None),
        # a worker has the arguments of the command, but was not started by them
        (["bin/accountant", "sweep"], ["python", "-c", "from multiprocessing.spawn import spawn_main"], None),
        ([], ["python"], None),
    ],
)
def test_which_processes_are_commands(monkeypatch, argv, given, command):
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(sys, "orig_argv", given)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interruption.await_command()
        assert (signal.getsignal(signal.SIGINT) is signal.default_int_handler) == (command is None)
        interruption.begin_command()
        expected = signal.default_int_handler if command is None else interruption.interrupt
        assert signal.getsignal(signal.SIGINT) is expected
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interruption_while_kernels_are_compiled_is_not_lost():
    """The compiler calls back and drops what is raised there: the command went on after a traceback."""

    @ctypes.CFUNCTYPE(None)
    def _raw_object_cache_notify():
        signal.raise_signal(signal.SIGINT)

    def compile_kernel():
        _raw_object_cache_notify()
        time.sleep(20.0)

    before, begin = signal.signal(signal.SIGINT, interruption.interrupt), time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            compile_kernel()
        assert time.monotonic() < begin + 10.0
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_compiler_has_these_callbacks():
    engine = pytest.importorskip("llvmlite.binding.executionengine").ExecutionEngine
    assert all(hasattr(engine, name) for name in interruption.CALLBACKS)
