"""The protection of a node: TLS, SASL, its authorizer, and the check of listeners that other machines can reach."""
