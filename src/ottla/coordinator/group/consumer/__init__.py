"""Consumer groups (KIP-848): the coordinator assigns, members are led step by step to what they are meant to have."""
