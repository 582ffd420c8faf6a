"""The guard of one server: a small process that outlives its owner and leaves nothing behind.

Run as a script (`python -I -S guard.py`), with the standard library only. It reads one JSON object per line on standard
input and answers with one per line on standard output:

    {"do": "start", "command": [...], "environment": {...}, "directory": ..., "log": ..., "user": [uid, gid] | null,
     "death_signal": 9}                                     -> {"pid": 123} or {"error": "..."}
    {"do": "stop", "signal": 15, "seconds": 20.0}           -> {"exit": 0}      (signal, wait, then SIGKILL)
    {"do": "kill"}                                          -> {"exit": -9}     (SIGKILL, descendants included)
    {"do": "status"}                                        -> {"pid": 123 | null, "exit": null | 0}
    {"do": "close"}                                         -> stops the server, removes the directory, {"closed": true}

End of file on standard input, or the owner's death, means "close": that is what happens when the owner is SIGKILLed. If
the guard itself is SIGKILLed, the kernel sends `death_signal` to the server (Linux, PR_SET_PDEATHSIG). On Linux the guard
is a subreaper, so that whatever the server leaves behind becomes its child and is killed too.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LINUX = sys.platform == "linux"
LIBC = ctypes.CDLL(None, use_errno=True) if LINUX else None
GRACE_SECONDS = 10.0


class Guard:
    """State of one guarded server."""

    def __init__(self, directories: list[Path], stop_signal: int) -> None:
        self.directories = directories
        self.stop_signal = stop_signal
        self.process: subprocess.Popen[bytes] | None = None
        self.exit: int | None = None

    def start(self, request: dict[str, Any]) -> dict[str, Any]:
        """Start the server. Answers with an error instead of raising, because the owner decides what it means."""
        if self.poll() is not None:
            return {"error": "it is running already"}
        user = request["user"]
        death_signal = int(request["death_signal"])
        guard_pid = os.getpid()

        def in_child() -> None:
            if user is not None:  # before the death signal, which a change of user clears
                os.setgroups([])
                os.setgid(user[1])
                os.setuid(user[0])
            if LIBC is not None:
                LIBC.prctl(PR_SET_PDEATHSIG, death_signal)
                if os.getppid() != guard_pid:  # the guard died in between
                    os._exit(1)

        try:
            with Path(request["log"]).open("ab") as log:
                self.process = subprocess.Popen(
                    request["command"],
                    env=request["environment"],
                    cwd=request["directory"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=in_child,  # noqa: PLW1509 (the guard has one thread)
                )
        except (OSError, subprocess.SubprocessError) as error:
            return {"error": f"{type(error).__name__}: {error}"}
        self.exit = None
        return {"pid": self.process.pid}

    def poll(self) -> int | None:
        """Return the server's pid, or None when it does not run."""
        if self.process is None:
            return None
        code = self.process.poll()
        if code is None:
            return self.process.pid
        self.exit, self.process = code, None
        return None

    def stop(self, number: int, seconds: float) -> dict[str, Any]:
        """Signal the server, wait, then kill what is left."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
        return self.kill()

    def kill(self) -> dict[str, Any]:
        """SIGKILL the server and everything it started, and wait until all of it is gone."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.poll()
        deadline = time.monotonic() + GRACE_SECONDS
        while LINUX and time.monotonic() < deadline and self._reap_orphans():
            time.sleep(0.02)
        return {"exit": self.exit}

    def _reap_orphans(self) -> bool:
        """Kill and reap adopted processes; whether any is left."""
        for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return False
        return True

    def close(self) -> None:
        """Stop the server and remove its directory; then the stack's, if this was the last one in it."""
        self.stop(self.stop_signal, GRACE_SECONDS)
        for directory in self.directories:
            shutil.rmtree(directory, ignore_errors=True)
            with contextlib.suppress(OSError):
                directory.parent.rmdir()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what one request asks."""
        match request["do"]:
            case "start":
                return self.start(request)
            case "stop":
                return self.stop(int(request["signal"]), float(request["seconds"]))
            case "kill":
                return self.kill()
            case "status":
                return {"pid": self.poll(), "exit": self.exit}
            case "close":
                self.close()
                return {"closed": True}
            case other:
                return {"error": f"unknown request {other}"}


def owner_is_gone(owner: int) -> bool:
    """Whether the process that started this guard has died."""
    return os.getppid() != owner


def serve(guard: Guard, owner: int) -> None:
    """Answer requests until the owner closes, goes away, or dies.

    A forked child of the owner may keep the pipe open after the owner's death, so the owner is watched as well.
    """
    watched = [sys.stdin.fileno()]
    if LINUX:
        with contextlib.suppress(OSError):
            watched.append(os.pidfd_open(owner))
    buffer = b""
    while True:
        ready, _, _ = select.select(watched, [], [], None if len(watched) == 2 else 1.0)
        if owner_is_gone(owner):
            break
        if watched[0] not in ready:
            continue
        chunk = os.read(watched[0], 65536)
        if not chunk:
            break
        buffer += chunk
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            request = json.loads(line)
            answer = guard.answer(request)
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
            if request["do"] == "close":
                return
    guard.close()


def _nothing(number: int, frame: object) -> None:
    """Outlive the signal."""


def main() -> None:
    """Read the settings from the first argument and serve."""
    settings = json.loads(sys.argv[1])
    # The owner decides; a signal to the terminal's process group, or a polite kill of everything, must not end the guard
    # before its server.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, _nothing)  # not SIG_IGN, which the server would inherit
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    if LIBC is not None:
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)
    serve(Guard([Path(one) for one in settings["directories"]], settings["stop_signal"]), settings["owner"])


if __name__ == "__main__":
    main()
