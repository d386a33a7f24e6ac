"""Tokens: those of PyJWT are verified, and everything that is not a valid signed token is refused."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import pytest

from ottla.security.sasl.oauth.jwks import KeySet, VerificationKey, parse_jwks
from ottla.security.sasl.oauth.jwt import AccessToken, Rules, TokenRefused, candidates, parse, verify
from tests.support.tokens import AUDIENCE, ISSUER, Provider

RULES = Rules(ISSUER, frozenset({AUDIENCE}))
NOW_S = 1_800_000_000
PROVIDER = Provider(NOW_S)
KEYS = parse_jwks(PROVIDER.jwks())


def verified(token: str, rules: Rules = RULES, keys: KeySet = KEYS) -> AccessToken:
    parsed = parse(token)
    return verify(parsed, candidates(parsed, keys), rules, NOW_S)


def encoded(data: Any) -> str:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class TestOracle:
    @pytest.mark.parametrize(
        ("algorithm", "key"),
        [(kind + bits, "rsa") for kind in ("RS", "PS") for bits in ("256", "384", "512")]
        + [("ES256", "ec256"), ("ES384", "ec384"), ("ES512", "ec521")],
    )
    def test_every_algorithm(self, algorithm: str, key: str) -> None:
        token = verified(PROVIDER.token(algorithm, key))
        assert token.subject == "alice"
        assert token.expires_ms > NOW_S * 1000

    def test_a_token_without_a_key_id(self) -> None:
        assert verified(PROVIDER.token(headers={"kid": None})).subject == "alice"

    def test_other_claim_names(self) -> None:
        rules = RULES._replace(subject_claim="client", scope_claim="scp")
        assert verified(PROVIDER.token(client="app", scp=["a", "b"]), rules).subject == "app"

    def test_any_issuer_if_none_is_expected(self) -> None:
        assert verified(PROVIDER.token(), RULES._replace(issuer=None)).subject == "alice"

    def test_one_of_several_audiences(self) -> None:
        assert verified(PROVIDER.token(aud=["other", AUDIENCE])).subject == "alice"

    def test_within_the_clock_skew(self) -> None:
        assert verified(PROVIDER.token(exp=int(NOW_S) - 20, nbf=int(NOW_S) + 20, iat=int(NOW_S) + 20)).subject


class TestSignatures:
    def test_unsecured_tokens(self) -> None:
        """The unsecured tokens of RFC 7515: an algorithm `none` is never accepted."""
        for algorithm in ("none", "None", "NONE", ""):
            for signature in ("", "AAAA"):
                with pytest.raises(TokenRefused):
                    parse(f"{encoded({'alg': algorithm})}.{encoded(PROVIDER.claims())}.{signature}")

    def test_a_public_key_as_the_secret_of_an_hmac(self) -> None:
        public = PROVIDER.jwks("rsa").encode()
        signed = f"{encoded({'alg': 'HS256', 'kid': 'rsa'})}.{encoded(PROVIDER.claims())}"
        signature = hmac.digest(public, signed.encode(), "sha256")
        with pytest.raises(TokenRefused, match="algorithm"):
            parse(f"{signed}.{encoded(signature)}")

    @pytest.mark.parametrize(
        ("algorithm", "key"), [("ES256", "ec384"), ("ES512", "ec256"), ("RS256", "ec256")]
    )
    def test_an_algorithm_of_another_key_type(self, algorithm: str, key: str) -> None:
        header, claims, signature = PROVIDER.token({"ec384": "ES384", "ec256": "ES256"}[key], key).split(".")
        changed = encoded({"alg": algorithm, "kid": key})
        assert header != changed
        with pytest.raises(TokenRefused, match="no key"):
            verified(f"{changed}.{claims}.{signature}")

    def test_the_algorithm_of_the_key(self) -> None:
        (key,) = parse_jwks(PROVIDER.jwks("rsa"))["rsa"]
        bound = {"rsa": [VerificationKey(key.key, frozenset({"PS256"}))]}
        with pytest.raises(TokenRefused):
            verified(PROVIDER.token("RS256"), keys=bound)

    def test_changed_claims(self) -> None:
        header, _, signature = PROVIDER.token().split(".")
        with pytest.raises(TokenRefused, match="no key"):
            verified(f"{header}.{encoded(PROVIDER.claims(sub='admin'))}.{signature}")

    def test_the_key_of_another_provider(self) -> None:
        with pytest.raises(TokenRefused, match="no key"):
            verified(Provider().token())

    def test_an_unknown_key_id(self) -> None:
        with pytest.raises(TokenRefused, match="no key"):
            verified(PROVIDER.token(headers={"kid": "unknown"}))

    def test_a_key_in_the_header_is_ignored(self) -> None:
        other = Provider()
        jwk = json.loads(other.jwks("rsa"))["keys"][0]
        with pytest.raises(TokenRefused, match="no key"):
            verified(other.token(headers={"jwk": jwk, "jku": "https://attacker.example"}))

    def test_extensions_of_the_header(self) -> None:
        with pytest.raises(TokenRefused, match="extensions"):
            verified(PROVIDER.token(headers={"crit": ["exp"], "exp": 1}))


class TestClaims:
    @pytest.mark.parametrize(
        "claims",
        [
            {"iss": "https://other.example"},
            {"iss": None},
            {"aud": "other"},
            {"aud": None},
            {"aud": []},
            {"aud": [1]},
            {"exp": int(NOW_S) - 31},
            {"exp": None},
            {"exp": "tomorrow"},
            {"exp": True},
            {"iat": None},
            {"iat": int(NOW_S) + 60},
            {"nbf": int(NOW_S) + 60},
            {"sub": None},
            {"sub": " "},
            {"sub": 7},
            {"scope": ["a", "a"]},
            {"scope": [""]},
        ],
        ids=str,
    )
    def test_refused(self, claims: dict[str, Any]) -> None:
        made = PROVIDER.claims()
        made.update(claims)
        import jwt

        token = (
            jwt.encode(
                {name: value for name, value in made.items() if value is not None},
                PROVIDER.keys["rsa"],
                "RS256",
                headers={"kid": "rsa"},
            )
            if claims.get("sub") != 7 and claims.get("exp") != "tomorrow"
            else signed(made)
        )
        with pytest.raises(TokenRefused):
            verified(token)

    def test_an_audience_that_is_not_expected(self) -> None:
        """As in Kafka: a token for another service is not one for every service."""
        with pytest.raises(TokenRefused, match="audience"):
            verified(PROVIDER.token(), Rules(ISSUER))
        assert verified(PROVIDER.token(aud=None), Rules(ISSUER)).subject == "alice"


def signed(claims: dict[str, Any]) -> str:
    """A token with claims that PyJWT does not sign."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    text = f"{encoded({'alg': 'RS256', 'kid': 'rsa'})}.{encoded(claims)}"
    signature = PROVIDER.keys["rsa"].sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{text}.{encoded(signature)}"


class TestForm:
    @pytest.mark.parametrize(
        "token",
        [
            "",
            "a.b",
            "a.b.c.d",
            "a b.c.d",
            f"{encoded(b'[]')}.{encoded({})}.AAAA",
            f"{encoded(b'{')}.{encoded({})}.AAAA",
            f"{encoded(bytes([0xFF]))}.{encoded({})}.AAAA",
            f"{encoded({'alg': 'RS256', 'kid': 7})}.{encoded({})}.AAAA",
            f"{encoded(b'{%s}' % (b'[' * 100_000))}.{encoded({})}.AAAA",
            encoded({"alg": "RS256"}) + "." + "A" * 300_000 + ".AAAA",
            encoded(b'{"alg": "HS256", "alg": "RS256"}') + f".{encoded({})}.AAAA",
            "A.A.A",
        ],
        ids=range(12),
    )
    def test_refused(self, token: str) -> None:
        with pytest.raises(TokenRefused):
            verified(token)


class TestKeySets:
    def test_keys_that_verify_nothing_are_ignored(self) -> None:
        from cryptography.hazmat.primitives.asymmetric import rsa

        document = json.loads(PROVIDER.jwks("rsa"))
        (good,) = document["keys"]
        weak = rsa.generate_private_key(65537, 1024).public_key().public_numbers().n  # noqa: S505
        document["keys"] += [
            {"kty": "oct", "k": "c2VjcmV0", "kid": "oct"},
            {**good, "kid": "enc", "use": "enc"},
            {**good, "kid": "ops", "key_ops": ["sign"]},
            {**good, "kid": "alg", "alg": "HS256"},
            {**good, "kid": "weak", "n": encoded(weak.to_bytes(128, "big"))},
            {"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA", "kid": "off the curve"},
            {"kty": "EC", "crv": "P-999", "kid": "curve"},
            {"kty": "RSA", "kid": "empty"},
            "text",
        ]
        assert set(parse_jwks(json.dumps(document))) == {"rsa"}

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"keys": 1}', "[" * 100_000])
    def test_what_is_not_a_key_set(self, text: str) -> None:
        with pytest.raises(ValueError, match="key set"):
            parse_jwks(text)
