from collections.abc import Callable

from ottla.base.files import Buffer

class WriterThreads:
    def __init__(self, threads: int, wake_fd: int) -> None: ...
    def write(
        self,
        fd: int,
        buffers: list[Buffer],
        position: int,
        sync: bool,
        done: Callable[[BaseException | None], None],
    ) -> None: ...
    def take(self) -> list[tuple[Callable[[BaseException | None], None], int]]: ...
    def close(self) -> None: ...
