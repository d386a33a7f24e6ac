"""The state of a cluster that the pages show: snapshots, their poller, what follows from them."""
