"""The protection of a node: TLS, SASL, its authorizer."""
