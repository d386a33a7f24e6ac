"""OAUTHBEARER (RFC 7628): tokens, the keys that verify them, and both sides of the exchange."""
