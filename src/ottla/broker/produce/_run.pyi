from ottla.broker.produce.run_reference import Room, Scanned

def scan_run(
    view: memoryview,
    position: int,
    end: int,
    shape: bytes,
    flexible: bool,
    template: bytes,
    offset_at: int,
    room: Room,
) -> Scanned | None: ...
