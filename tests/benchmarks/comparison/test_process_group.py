from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.comparison.process_ending import end
from benchmarks.comparison.process_group import Command, ContestantError, last_json, run_together
from tests.helpers.process_states import ends_within, is_running
from tests.helpers.waiting import until

SECONDS = 30
CORE = min(os.sched_getaffinity(0))


def command(code: str, **more: object) -> Command:
    return Command((sys.executable, "-c", f"import os, sys, time, json, subprocess\n{code}"), (CORE,), **more)


def test_processes_say_their_last_line_of_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # with it, each start would compile
    facts = "{'core': list(os.sched_getaffinity(0)), 'v': os.environ.get('V'), 'bytecode': not sys.dont_write_bytecode}"
    say = f"print('noise'); print('{{\"a\": 1}}'); print(json.dumps({facts}))"
    begun = time.time()
    first, second = run_together(
        [command(say, environment={"V": "x"}), command(say, afterwards=lambda: {"later": 2})], SECONDS, tmp_path
    )
    assert first["core"] == second["core"] == [CORE] and first["bytecode"]
    assert (first["v"], second["v"], second["later"]) == ("x", None, 2)
    assert begun <= first["started"] <= second["started"] <= time.time()
    (tmp_path / "bad").write_text('{"half\n[1]\n')
    with pytest.raises(ContestantError, match="without a line of JSON"):
        last_json(tmp_path / "bad")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('why', file=sys.stderr); sys.exit(3)", r"exit code 3\. Its last lines:\n    why$"),
        ("os.kill(os.getpid(), 9)", r"SIGKILL\. It printed nothing"),
    ],
)
def test_one_that_fails_is_named_with_its_last_lines_and_ends_the_others(code: str, said: str, tmp_path: Path) -> None:
    other = command(f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep({10 * SECONDS})")
    failing = command(f"while not os.path.exists({str(tmp_path / 'pid')!r}): time.sleep(0.01)\n{code}")
    begun = time.monotonic()
    with pytest.raises(ContestantError, match=said):
        run_together([other, failing], SECONDS, tmp_path)
    assert time.monotonic() - begun < SECONDS
    assert not is_running(int((tmp_path / "pid").read_text()))


def test_one_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(ContestantError, match=r"longer than 0.1 s \(--limit\)"):
        run_together([command(f"time.sleep({10 * SECONDS})")], 0.1, tmp_path)


def test_a_launcher_is_ended_with_workers_in_sessions_of_their_own(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    worker = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep({10 * SECONDS})"
    code = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {worker!r}], start_new_session=True).wait()"
    )
    launcher = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        until(lambda: pid.exists() and pid.read_text())
    finally:
        end(launcher)
    assert launcher.returncode == -signal.SIGKILL
    assert not is_running(int(pid.read_text()))


def test_nothing_outlives_a_benchmark_that_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    worker = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep({10 * SECONDS})"
    code = (
        "import sys; from pathlib import Path; from benchmarks.comparison.process_group import Command, run_together\n"
        f"run_together([Command((sys.executable, '-c', {worker!r}), ({CORE},))], {SECONDS}, Path({str(tmp_path)!r}))"
    )
    benchmark = subprocess.Popen([sys.executable, "-c", code])
    try:
        until(lambda: pid.exists() and pid.read_text())
    finally:
        benchmark.send_signal(signal.SIGKILL)
        benchmark.wait(SECONDS)
    assert ends_within(int(pid.read_text()), SECONDS)
