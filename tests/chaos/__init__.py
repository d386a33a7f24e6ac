"""`make chaos`: real clusters, real clients and real faults, with every history checked."""
