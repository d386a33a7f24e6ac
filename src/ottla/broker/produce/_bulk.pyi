from ottla.broker.produce.bulk_reference import Scanned
from ottla.storage.log.bulk_append import AppendLimits

def scan_bulk(
    view: memoryview,
    position: int,
    end: int,
    shape: bytes,
    flexible: bool,
    template: bytes,
    offset_at: int,
    limits: AppendLimits,
) -> Scanned | None: ...
