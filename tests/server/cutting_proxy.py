"""A real proxy before Postgres that can lose an answer: the statement happened, nobody was told."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType

from psycopg.conninfo import conninfo_to_dict, make_conninfo


class CuttingProxy:
    """Use it as an async context manager, and connect to `conninfo`."""

    def __init__(self, conninfo: str) -> None:
        self._target = {k: str(v) for k, v in conninfo_to_dict(conninfo).items() if v is not None}
        self._conninfo = conninfo
        self._marker = b""
        self._tasks: set[asyncio.Task[None]] = set()
        self.cuts = 0

    def cut(self, marker: str) -> None:
        """Closes the connection instead of passing the answer to the next statement with this."""
        self._marker = marker.encode()

    @property
    def conninfo(self) -> str:
        """How to reach the database through the proxy."""
        port = self._server.sockets[0].getsockname()[1]
        return make_conninfo(self._conninfo, host="127.0.0.1", port=port, sslmode="disable")

    async def __aenter__(self) -> CuttingProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self._target.get("host", "localhost"), self._target.get("port", "5432")
        if host.startswith("/"):
            there, back = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            there, back = await asyncio.open_connection(host, int(port))
        doomed = asyncio.Event()

        async def ask() -> None:
            while data := await reader.read(1 << 20):
                if self._marker and self._marker in data:
                    self._marker = b""
                    doomed.set()
                back.write(data)

        async def answer() -> None:
            while data := await there.read(1 << 20):
                if doomed.is_set():
                    self.cuts += 1
                    return
                writer.write(data)

        tasks = {asyncio.create_task(ask()), asyncio.create_task(answer())}
        self._tasks |= tasks
        with contextlib.suppress(ConnectionError):
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        self._tasks -= tasks
        writer.close()
        back.close()
