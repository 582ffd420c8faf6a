"""The worker's side of the process that tasks are forked from (see `task_fork_server`)."""

import asyncio
import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from typing import Final

from tidings_capture import task_fork_server
from tidings_service import get_logger

_LINE_LIMIT: Final = 4 * 1024 * 1024
_GONE: Final = -signal.SIGKILL
"""What a task ended with whose end nobody saw: with the server it was forked from."""

_log = get_logger(__name__)


class ForkedTask:
    """A task's process, and its two pipes."""

    def __init__(
        self,
        pid: int,
        stdin: asyncio.WriteTransport,
        stdout: asyncio.StreamReader,
        out: asyncio.ReadTransport,
    ) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self._out = out
        self.returncode: int | None = None
        self._ended = asyncio.Event()

    async def wait(self) -> int:
        """Its exit code, once it has ended; negative: by that signal."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        """SIGKILL, if it has not ended."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Let go of the pipes."""
        self.stdin.close()
        self._out.close()

    def ended(self, code: int) -> None:
        """Take note of its end."""
        self.returncode = code
        self._ended.set()


class TaskForks:
    """Starts the processes of tasks, for as long as the worker lives. One event loop uses it."""

    def __init__(self) -> None:
        self._end: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | int | None = None
        self._listening = False
        self._buffer = b""
        self._asked: deque[asyncio.Future[int]] = deque()
        self._tasks: dict[int, ForkedTask] = {}
        self._early: dict[int, int] = {}
        """Codes of tasks that ended before `start` knew them."""

    def fork(self) -> None:
        """Fork the server from this process, which must not have started a thread; so they share the pages of modules."""
        ours, theirs = socket.socketpair()
        gc.collect()
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            ours.close()
            try:
                task_fork_server.serve(theirs)
            finally:
                os._exit(0)
        theirs.close()
        self._take(ours, pid)

    async def start(self) -> ForkedTask:
        """A new task's process, which waits for its job.

        Raises:
            OSError: there can be none, or its server ended; another attempt may succeed.
        """
        loop = asyncio.get_running_loop()
        if self._end is None:
            self._spawn()
        assert self._end is not None
        if not self._listening:
            loop.add_reader(self._end.fileno(), self._hear)
            self._listening = True
        stdin, out = os.pipe(), os.pipe()
        asked: asyncio.Future[int] = loop.create_future()
        try:
            socket.send_fds(self._end, [b"t"], [stdin[0], out[1]])
            self._asked.append(asked)
            pid = await asked
        except BaseException:
            os.close(stdin[1])
            os.close(out[0])
            raise
        finally:
            os.close(stdin[0])
            os.close(out[1])
        reader = asyncio.StreamReader(limit=_LINE_LIMIT)
        writing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(stdin[1], "wb", 0))
        reading, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(out[0], "rb", 0)
        )
        made = ForkedTask(pid, writing, reader, reading)
        if pid in self._early:
            made.ended(self._early.pop(pid))
        else:
            self._tasks[pid] = made
        return made

    async def close(self) -> None:
        """End the server; whatever it has still forked ends with it."""
        server = self._server
        self._lose()
        if isinstance(server, int):
            await asyncio.to_thread(os.waitpid, server, 0)
        elif server is not None:
            await asyncio.to_thread(server.wait)

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", task_fork_server.__name__, str(theirs.fileno())]
            self._take(ours, subprocess.Popen(command, pass_fds=[theirs.fileno()]))

    def _take(self, end: socket.socket, server: subprocess.Popen[bytes] | int) -> None:
        end.setblocking(False)
        self._end, self._server = end, server

    def _hear(self) -> None:
        assert self._end is not None
        try:
            data = self._end.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            _log.error("the process that tasks are forked from has ended, and its tasks with it")
            server = self._server
            self._lose()
            if isinstance(server, int):
                os.waitpid(server, 0)
            elif server is not None:
                server.wait()
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            answer = json.loads(line)
            if "code" in answer:
                ended = self._tasks.pop(answer["pid"], None)
                if ended is None:
                    self._early[answer["pid"]] = answer["code"]
                else:
                    ended.ended(answer["code"])
                continue
            asked = self._asked.popleft()
            if asked.done():  # whoever asked was cancelled
                if "pid" in answer:
                    os.kill(answer["pid"], signal.SIGKILL)
            elif "pid" in answer:
                asked.set_result(answer["pid"])
            else:
                asked.set_exception(OSError(f"a task's process cannot be forked: {answer['error']}"))

    def _lose(self) -> None:
        end, self._end, self._server = self._end, None, None
        if end is not None:
            if self._listening:
                asyncio.get_running_loop().remove_reader(end.fileno())
            end.close()
        self._listening, self._buffer = False, b""
        while self._asked:
            asked = self._asked.popleft()
            if not asked.done():
                asked.set_exception(OSError("the process that tasks are forked from has ended"))
        for left in list(self._tasks.values()):
            left.ended(_GONE)
            left.stdin.close()  # where the system does not end it, it stops by itself
        self._tasks.clear()
        self._early.clear()
