"""Ports, locks, and the end of a server with its owner: what a broken earlier run must not break.
Run by `make test`; Valkey stands for all servers because it starts fastest.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from deploy.local import AlreadyRunning, DirectoryLock, LocalServer, PortTaken, StartFailed, ValkeyServer
from deploy.local.ports import LOOPBACK, pick_free_port, port_is_free

_ROOT = Path(__file__).resolve().parents[2]


def _owner(directory: Path, port: int, then: str) -> "subprocess.Popen[str]":
    """Another process that starts Valkey, prints its pid and goes on with `then`."""
    script = (
        "import os, pathlib, signal, threading, time\n"
        "from deploy.local import ValkeyServer\n"
        "from deploy.local.guard import GUARD\n"
        f"server = ValkeyServer(pathlib.Path({str(directory)!r}), {port})\n"
        "starter = threading.Thread(target=server.start)\n"
        "starter.start(); starter.join()\n"
        "print(server.pid, flush=True)\n" + then
    )
    return subprocess.Popen([sys.executable, "-c", script], cwd=_ROOT, stdout=subprocess.PIPE, text=True)


def _started(owner: "subprocess.Popen[str]") -> int:
    assert owner.stdout is not None
    return int(owner.stdout.readline())


def _eventually(what: Callable[[], bool], seconds: float = 10.0) -> bool:
    give_up_at = time.monotonic() + seconds
    while time.monotonic() < give_up_at:
        if what():
            return True
        time.sleep(0.05)
    return False


def test_taken_port_is_one_line_with_port_and_setting(directory: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTaken) as refused:
            ValkeyServer(directory, port, "KENARI_VALKEY_PORT").start()
    assert str(port) in str(refused.value)
    assert "KENARI_VALKEY_PORT" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_free_ports_are_free_and_never_the_same() -> None:
    ports = [pick_free_port() for _ in range(50)]
    assert len(set(ports)) == 50
    assert all(port_is_free(port) for port in ports)


def test_second_run_on_the_same_directory_is_refused_and_harms_nothing(directory: Path) -> None:
    # given a run of another process
    port = pick_free_port()
    owner = _owner(directory, port, "time.sleep(60)")
    try:
        _started(owner)
        # when this process starts on the same directory
        with pytest.raises(AlreadyRunning, match=f"in use by process {owner.pid}"):
            ValkeyServer(directory).start()
        # then the first still answers
        assert not port_is_free(port)
    finally:
        owner.kill()
        owner.wait()


def test_server_ends_with_a_killed_owner_though_the_starting_thread_ended_before(directory: Path) -> None:
    # given an owner whose starting thread is gone and whose server lives on
    port = pick_free_port()
    owner = _owner(directory, port, "time.sleep(60)")
    _started(owner)
    time.sleep(0.3)
    assert not port_is_free(port)
    # when the owner is killed, then its server ends
    owner.kill()
    owner.wait()
    assert _eventually(lambda: port_is_free(port))


def test_start_takes_over_from_a_server_that_outlived_its_run(directory: Path) -> None:
    # given a server whose owner was killed and which nobody stops
    port = pick_free_port()
    owner = _owner(directory, port, "GUARD.forget(server.pid); os.kill(os.getpid(), signal.SIGKILL)")
    orphan = _started(owner)
    owner.wait()
    os.kill(orphan, 0)
    # when the next run starts on the same directory and port, then it serves
    with ValkeyServer(directory, port) as server:
        assert server.running
        assert server.pid != orphan


def test_lock_of_a_killed_holder_is_free(directory: Path) -> None:
    # given a holder that was killed
    script = (
        "import os, pathlib, signal\n"
        "from deploy.local import DirectoryLock\n"
        f"DirectoryLock(pathlib.Path({str(directory)!r})).acquire()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=_ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    # when somebody else takes the lock, then it is theirs, and theirs alone
    with DirectoryLock(directory), pytest.raises(AlreadyRunning):
        DirectoryLock(directory).acquire()


class _Broken(LocalServer):
    """Says why, then ends."""

    name = "Broken"

    def _prepare(self) -> None:
        """Nothing to make."""

    def _command(self) -> Sequence[str]:
        return [sys.executable, "-c", "import sys; print('the disk is full'); sys.exit(3)"]

    def _answers(self) -> bool:
        return False


def test_server_that_ends_while_starting_is_reported_with_its_log(directory: Path) -> None:
    broken = _Broken(directory)
    with pytest.raises(StartFailed, match=r"Broken ended while starting(.|\n)*the disk is full"):
        broken.start()
    # and the directory is free again
    with DirectoryLock(directory):
        assert not broken.running


def test_the_log_of_earlier_starts_is_not_shown(directory: Path) -> None:
    # given a log that an earlier start left
    broken = _Broken(directory)
    broken.log_file.write_text("a mistake of yesterday\n")
    # when the next start fails
    with pytest.raises(StartFailed, match="the disk is full") as failed:
        broken.start()
    # then the message has the words of this start alone
    assert "yesterday" not in str(failed.value)
    assert "yesterday" in broken.log_file.read_text()


def test_server_killed_from_outside_starts_again(directory: Path) -> None:
    with ValkeyServer(directory) as server:
        # given a server that somebody else killed
        os.kill(server.pid, signal.SIGKILL)
        assert _eventually(lambda: not server.running)
        # when it starts again, then it serves
        assert server.start().running
        assert not port_is_free(server.port)


def test_start_and_stop_can_be_repeated(directory: Path) -> None:
    server = ValkeyServer(directory)
    server.start()
    pid = server.pid
    assert server.start().pid == pid
    server.stop()
    server.stop()
    assert not server.running
