"""A TCP proxy that does what networks do: cut, delay, hold back, lose connections without a word.

One thread with an event loop serves all proxies of a process. Every method may be called from any thread and returns when
it has taken effect.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

T = TypeVar("T")
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER that turns a close into a RST."""


class _Loop:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="proxies", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)


_LOOP: _Loop | None = None


def _loop() -> _Loop:
    global _LOOP  # noqa: PLW0603 - one for the process
    if _LOOP is None:
        _LOOP = _Loop()
    return _LOOP


class _Connection:
    """Both halves of one client's connection."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client, self.server = client, server
        self.lost = False

    def reset(self) -> None:
        for writer in (self.client, self.server):
            endpoint: socket.socket | None = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                if endpoint is not None:
                    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()


class Proxy:
    """Listens on a free port of the loopback interface for one server.

    Args:
        target_port: where the server listens, on the loopback interface.
    """

    def __init__(self, target_port: int) -> None:
        self._target = target_port
        self._connections: set[_Connection] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._refusing = False
        self._delay = 0.0
        self._rate = 0.0
        self._cut_after: int | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.forwarded = 0
        """Bytes so far, both ways."""
        self._server: asyncio.Server = _loop().run(self._listen())
        self.port: int = self._server.sockets[0].getsockname()[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def connections(self) -> int:
        """Connections that are open, lost ones included."""
        return len(self._connections)

    def cut(self) -> int:
        """Reset every connection; how many there were."""
        return self._do(self._reset_all)

    def retarget(self, port: int) -> None:
        """Another server is behind it from now on; every connection is reset."""

        def turn() -> None:
            self._target = port
            self._reset_all()

        self._do(turn)

    def cut_after(self, size: int) -> None:
        """Reset every connection as soon as so many more bytes have passed, wherever that is in a message."""
        self._do(lambda: setattr(self, "_cut_after", size))

    def lose(self) -> int:
        """Forget every connection as a firewall does: neither side hears anything any more. New ones work."""

        def mark() -> int:
            for connection in self._connections:
                connection.lost = True
            return len(self._connections)

        return self._do(mark)

    def hold(self) -> None:
        """Nothing passes, also on new connections, until `heal`; it is not lost, as TCP sends it again."""
        self._do(self._open.clear)

    def refuse(self) -> None:
        """Reset every connection and every new one at once, until `heal`."""

        def begin() -> None:
            self._refusing = True
            self._reset_all()

        self._do(begin)

    def delay(self, seconds: float) -> None:
        """Every piece of data waits so long, in both directions."""
        self._do(lambda: setattr(self, "_delay", seconds))

    def throttle(self, rate: float) -> None:
        """Of each connection so many bytes a second pass, in each direction."""
        self._do(lambda: setattr(self, "_rate", rate))

    def heal(self) -> None:
        """Stop all of it; lost connections are reset."""

        def mend() -> None:
            self._refusing, self._delay, self._rate, self._cut_after = False, 0.0, 0.0, None
            self._open.set()
            for connection in [one for one in self._connections if one.lost]:
                connection.reset()

        self._do(mend)

    def close(self) -> None:
        """Stop listening, and reset what is open."""

        async def end() -> None:
            self._server.close()
            self._reset_all()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        _loop().run(end())

    def _do(self, action: Any) -> Any:
        async def act() -> Any:
            return action()

        return _loop().run(act())

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, "127.0.0.1", 0)

    def _reset_all(self) -> int:
        found = list(self._connections)
        for connection in found:
            connection.reset()
        return len(found)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            _Connection(writer, writer).reset()
            return
        try:
            await self._open.wait()
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            _Connection(writer, writer).reset()
            return
        except asyncio.CancelledError:
            _Connection(writer, writer).reset()
            raise
        connection = _Connection(writer, up_writer)
        self._connections.add(connection)
        pumps = [
            asyncio.ensure_future(self._pump(connection, reader, up_writer)),
            asyncio.ensure_future(self._pump(connection, up_reader, writer)),
        ]
        try:
            await asyncio.gather(*pumps)
        except OSError:
            pass
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self._connections.discard(connection)
            connection.reset()

    async def _pump(
        self, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(65536):
            if self._delay:
                await asyncio.sleep(self._delay)
            if self._rate:
                await asyncio.sleep(len(data) / self._rate)
            await self._open.wait()
            if connection.lost:
                continue  # read and thrown away, as if it never arrived
            if self._cut_after is not None:
                if len(data) >= self._cut_after:
                    writer.write(data[: self._cut_after])
                    self._cut_after = None
                    await asyncio.sleep(0)  # what belongs before the cut may leave
                    self._reset_all()
                    return
                self._cut_after -= len(data)
            self.forwarded += len(data)
            writer.write(data)
            await writer.drain()
        if connection.lost:
            await asyncio.Event().wait()  # the other side does not hear of the end either
        with contextlib.suppress(OSError):
            writer.write_eof()
