"""The group coordinator: classic groups, consumer groups (KIP-848), and committed offsets."""
