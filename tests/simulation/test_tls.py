"""TLS on the connections between simulated nodes, under the faults of the standard scenario.

The bytes of TLS depend on random numbers of OpenSSL, so a run with TLS cannot be repeated exactly from its seed.
"""

from __future__ import annotations

import pytest

from ottla.testing.sim.run import Run
from tests.support.certificates import Authority

HOSTS = tuple(f"node{number}" for number in (*range(1, 10), *range(100, 110)))


@pytest.mark.parametrize("seed", [1, 2])
def test_a_quorum_over_tls_converges_after_faults(seed: int) -> None:
    authority = Authority()
    own = authority.issue("node", HOSTS)
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
        "ssl.keystore.key": own.key_pem(),
        "ssl.keystore.certificate.chain": own.certificate_pem,
        "ssl.truststore.certificates": authority.pem,
        "listener.name.controller.ssl.client.auth": "required",
    }
    run = Run(seed, settings, 6_000, brokers=3)
    nodes = run.simulation.clusters[0].nodes
    assert all(each.protocol.uses_tls for node in nodes for each in node.config.controller_listeners)
    result = run.finish()
    assert result.violation is None, "\n".join(result.last_lines)
    assert result.counts["broker starts"] >= 3
