"""Structure-aware fuzzer of request frames: every API, version and field, in process and over sockets."""
