"""That CPU and memory of process trees are counted whole and once.
Run by pytest; starts two small processes.
"""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.bench import processes

# A parent that lets one child burn CPU and end, keeps a second one, and waits.
_FAMILY = """
import subprocess, sys
burn = "import time; end = time.process_time() + 0.2\\nwhile time.process_time() < end: pass"
subprocess.run([sys.executable, "-c", burn])
kept = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
print(kept.pid, flush=True)
input()
"""


@pytest.fixture
def family() -> Iterator[tuple[int, int]]:
    command = [sys.executable, "-c", _FAMILY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        yield parent.pid, child
        parent.terminate()


def test_the_time_of_ended_children_stays_with_their_parent(family: tuple[int, int]) -> None:
    parent, _ = family

    assert processes.cpu_ms({"parent": [parent]})["parent"] >= 180


def test_a_tree_has_all_descendants(family: tuple[int, int]) -> None:
    assert processes.trees({"parent": [family[0]]})["parent"] == set(family)


def test_a_named_process_below_another_is_counted_once_for_its_own_name(family: tuple[int, int]) -> None:
    parent, child = family

    assert processes.trees({"parent": [parent], "child": [child]}) == {"parent": {parent}, "child": {child}}


def test_memory_is_read_for_each_name(family: tuple[int, int]) -> None:
    memory = processes.memory_mib({"parent": [family[0]], "me": [os.getpid()]})

    assert 1 < memory["parent"] < 200
    assert memory["me"] > 5


def test_ended_processes_are_missing_and_cost_nothing() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    roots = {"gone": [ended.pid], "me": [os.getpid()]}

    assert processes.missing(roots) == ["gone"]
    assert processes.cpu_ms(roots)["gone"] == 0
    assert processes.memory_mib(roots)["gone"] == 0
