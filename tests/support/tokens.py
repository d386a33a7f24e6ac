"""An identity provider: signing keys, their key set, tokens; PyJWT signs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from ottla.base.clock import SystemClock

ISSUER, AUDIENCE = "https://issuer.example", "kafka"


class Provider:
    """RSA key `rsa`, and a key of each curve: `ec256`, `ec384`, `ec521`."""

    def __init__(self, now_s: int | None = None) -> None:
        """Tokens are issued at `now_s`, by default now."""
        self._now_s = now_s
        self.keys: dict[str, Any] = {
            "rsa": rsa.generate_private_key(65537, 2048),
            "ec256": ec.generate_private_key(ec.SECP256R1()),
            "ec384": ec.generate_private_key(ec.SECP384R1()),
            "ec521": ec.generate_private_key(ec.SECP521R1()),
        }

    def jwks(self, *names: str) -> str:
        entries = []
        for name in names or self.keys:
            public = self.keys[name].public_key()
            algorithm = jwt.algorithms.RSAAlgorithm if name == "rsa" else jwt.algorithms.ECAlgorithm
            entries.append({**json.loads(algorithm.to_jwk(public)), "kid": name})
        return json.dumps({"keys": entries})

    def write_jwks(self, path: Path) -> str:
        """Write the key set to a file and return its URL."""
        path.write_text(self.jwks())
        return path.as_uri()

    def token(
        self, algorithm: str = "RS256", key: str = "rsa", headers: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        """A token that is valid for an hour; a claim that is None is omitted."""
        chosen = {"kid": key, **(headers or {})}
        present = {name: value for name, value in chosen.items() if value is not None}
        return jwt.encode(self.claims(**claims), self.keys[key], algorithm, headers=present)

    def claims(self, **claims: Any) -> dict[str, Any]:
        now = self._now_s or SystemClock().now_ms() // 1000
        made = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 3600, **claims}
        return {name: value for name, value in made.items() if value is not None}
