"""Who takes part in a simulation: small, faithful models of what real clients do."""
