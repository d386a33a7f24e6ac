"""SASL mechanisms without input and output: PLAIN, SCRAM and OAUTHBEARER, for both sides of a connection."""
