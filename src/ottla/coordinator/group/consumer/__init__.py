"""Consumer groups (KIP-848): the coordinator assigns partitions and members reconcile step by step."""
