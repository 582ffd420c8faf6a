"""The worker's side of the process that tasks are forked from (see `task.fork_server`)."""

import asyncio
import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Coroutine
from typing import IO, Any, Final, TypeVar

from tidings_connect.task import fork_server as task_fork_server
from tidings_service import get_logger

_LINE_LIMIT: Final = 4 * 1024 * 1024
_GONE: Final = -signal.SIGKILL
"""What a task ended with whose end nobody saw: with the server it was forked from."""

_ENDED: Final = "the process that tasks are forked from has ended"

_T = TypeVar("_T")

_log = get_logger(__name__)


class ForkedTask:
    """A task's process, and its two pipes.

    Args:
        end: set to its exit code.
    """

    def __init__(
        self,
        pid: int,
        end: "asyncio.Future[int]",
        stdin: asyncio.WriteTransport,
        stdout: asyncio.StreamReader,
        pipes: contextlib.ExitStack,
    ) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self._end = end
        self._pipes = pipes

    @property
    def returncode(self) -> int | None:
        """Its exit code, negative: the signal that ended it; None while it runs."""
        return self._end.result() if self._end.done() else None

    async def wait(self) -> int:
        """Its exit code, once it has ended."""
        return await asyncio.shield(self._end)

    def kill(self) -> None:
        """SIGKILL, if it has not ended."""
        if not self._end.done():
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Let go of the pipes."""
        self._pipes.close()


class TaskForks:
    """Starts the processes of tasks, for as long as the worker lives. One event loop uses it."""

    def __init__(self) -> None:
        self._end: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | int | None = None
        self._listening = False
        self._buffer = b""
        self._asked: deque[asyncio.Future[tuple[int, asyncio.Future[int]]]] = deque()
        self._ends: dict[int, asyncio.Future[int]] = {}
        """What waits for the exit codes of the processes that run."""

    def fork(self) -> None:
        """Fork the server from this process, which must not have started a thread; so they share the pages of modules."""
        ours, theirs = socket.socketpair()
        task_fork_server.preload()
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
        reader = asyncio.StreamReader(limit=_LINE_LIMIT)
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            stdin, writing_end = os.pipe()
            theirs.callback(os.close, stdin)
            made = os.fdopen(writing_end, "wb", 0)
            writing = await _connected(loop.connect_write_pipe(asyncio.BaseProtocol, made), made)
            ours.callback(writing.close)
            reading_end, out = os.pipe()
            theirs.callback(os.close, out)
            made = os.fdopen(reading_end, "rb", 0)
            protocol = asyncio.StreamReaderProtocol(reader)
            reading = await _connected(loop.connect_read_pipe(lambda: protocol, made), made)
            ours.callback(reading.close)
            if self._end is None:
                raise OSError(_ENDED)
            socket.send_fds(self._end, [b"t"], [stdin, out])
            asked: asyncio.Future[tuple[int, asyncio.Future[int]]] = loop.create_future()
            self._asked.append(asked)
            # One whose start nobody waits for any longer finds its pipe closed, and ends.
            pid, end = await asked
            return ForkedTask(pid, end, writing, reader, ours.pop_all())

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
        try:
            self._understand(data)
        except Exception:  # noqa: BLE001 - whoever waits for an answer would wait for ever
            _log.exception("the process that tasks are forked from says what nobody understands: it is ended")
            self._lose()

    def _understand(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            answer = json.loads(line)
            if "code" in answer:
                self._ends.pop(answer["pid"]).set_result(answer["code"])
                continue
            asked = self._asked.popleft()
            if "error" in answer:
                if not asked.done():
                    asked.set_exception(OSError(f"a task's process cannot be forked: {answer['error']}"))
                continue
            end = self._ends[answer["pid"]] = asyncio.get_running_loop().create_future()
            if not asked.done():
                asked.set_result((answer["pid"], end))

    def _lose(self) -> None:
        end, self._end, self._server = self._end, None, None
        if end is not None:
            if self._listening:
                asyncio.get_running_loop().remove_reader(end.fileno())
            end.close()
        self._listening, self._buffer = False, b""
        for asked in self._asked:
            if not asked.done():
                asked.set_exception(OSError(_ENDED))
        self._asked.clear()
        for left in self._ends.values():
            left.set_result(_GONE)
        self._ends.clear()


async def _connected(connecting: Coroutine[Any, Any, tuple[_T, Any]], pipe: IO[bytes]) -> _T:
    """A pipe's transport, which closes it from then on."""
    try:
        return (await connecting)[0]
    except BaseException:
        pipe.close()
        raise
