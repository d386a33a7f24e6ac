"""Credentials of SCRAM exchanges: users and delegation tokens of the metadata image, fake ones for unknown users.

The credential of an unknown user is a function of its name and of `secret`, in the form that most users of the
mechanism have: a client that repeats the request, now or later, gets the same salt and cannot distinguish the user from
one that exists. `secret` should be the same on all nodes.

The credential of a delegation token is derived from the HMAC of its id. That takes milliseconds, so it is done in the
executor, once for each token and mechanism.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import string
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from ottla.base.clock import Clock
from ottla.base.executor import Executor
from ottla.base.promise import Promise
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import DelegationTokenRecord, UserScramCredentialRecord
from ottla.security import principal
from ottla.security.sasl.exchange import Identity
from ottla.security.sasl.scram import Credential, Found
from ottla.security.scram_keys import ITERATIONS_MIN, ScramMechanism, derive_keys, salted_password
from ottla.security.tokens import token_hmac

_DIGITS: Final = (string.digits + string.ascii_lowercase).encode()
_JAVA_SALT_BYTES: Final = 26
"""Kafka's tools make salts of 25 or 26 digits of base 36."""
_TOKENS_KEPT_MAX: Final = 10_000
_Form = tuple[int, int, bool]
"""Iterations, length of the salt, and whether the salt consists of digits of base 36."""


class ScramStore:
    """Finds credentials for one mechanism. Concurrency: the event loop only."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        image: Callable[[], MetadataImage],
        secret: bytes,
        token_secret: str | None,
        clock: Clock,
        executor: Executor,
    ) -> None:
        self._mechanism = mechanism
        self._image = image
        self._secret = secret
        self._token_secret = token_secret
        self._clock = clock
        self._executor = executor
        self._form_of: Mapping[tuple[str, int], UserScramCredentialRecord] | None = None
        self._form: _Form = (ITERATIONS_MIN, _JAVA_SALT_BYTES, True)
        self._token_credentials: dict[str, Credential] = {}

    def find(self, name: str, token: bool) -> Found | Promise[Found]:
        # Computed in any case, so that the time does not depend on the result.
        fake = Found(self._fake(name), None)
        if token:
            return self._find_token(name, fake)
        record = self._image().scram.get((name, self._mechanism.value))
        if record is None:
            return fake
        found = Credential(record.salt, record.stored_key, record.server_key, record.iterations)
        return Found(found, Identity(name))

    # Delegation tokens

    def _find_token(self, token_id: str, fake: Found) -> Found | Promise[Found]:
        record = self._image().tokens.get(token_id)
        if record is None or self._token_secret is None:
            return fake
        if record.expiration_timestamp <= self._clock.now_ms():
            return fake
        kept = self._token_credentials.get(token_id)
        if kept is not None:
            return _token_found(record, kept)
        return self._derive(record, self._token_secret)

    def _derive(self, record: DelegationTokenRecord, secret: str) -> Promise[Found]:
        found: Promise[Found] = Promise()
        derived: list[Credential] = []
        salt = hmac.digest(self._secret, b"token salt" + record.token_id.encode(), "sha256")

        def derive() -> None:
            password = token_password(secret, record.token_id)
            salted = salted_password(self._mechanism, password, salt, ITERATIONS_MIN)
            derived.append(Credential(salt, *derive_keys(self._mechanism, salted), ITERATIONS_MIN))

        def done(error: BaseException | None) -> None:
            if error is not None:
                found.fail(error)
                return
            if len(self._token_credentials) >= _TOKENS_KEPT_MAX:
                self._token_credentials.clear()
            self._token_credentials[record.token_id] = derived[0]
            found.keep(_token_found(record, derived[0]))

        self._executor.submit(derive, done)
        return found

    # Unknown users

    def _fake(self, name: str) -> Credential:
        iterations, salt_bytes, digits = self._usual_form()
        seed = f"{self._mechanism.name} {name}".encode()
        salt = hashlib.shake_256(self._secret + seed).digest(salt_bytes)
        if digits:
            salt = bytes(_DIGITS[byte % 36] for byte in salt)
        key = hmac.digest(self._secret, seed, self._mechanism.digest)
        return Credential(salt, key, key, iterations)

    def _usual_form(self) -> _Form:
        """The form that most credentials of the current image have."""
        users = self._image().scram
        if users is not self._form_of:
            self._form_of = users
            forms = Counter(
                _form(record)
                for (_, mechanism), record in users.items()
                if mechanism == self._mechanism.value
            )
            if forms:
                self._form = forms.most_common(1)[0][0]
        return self._form


def token_password(secret: str, token_id: str) -> str:
    """The secret of a delegation token in the form that clients use as their password."""
    return base64.b64encode(token_hmac(secret, token_id)).decode()


def _token_found(record: DelegationTokenRecord, found: Credential) -> Found:
    owner = principal.parse(record.owner).name
    return Found(found, Identity(owner, token_authenticated=True, expires_ms=record.expiration_timestamp))


def _form(record: UserScramCredentialRecord) -> _Form:
    digits = all(byte in _DIGITS for byte in record.salt)
    return record.iterations, len(record.salt), digits
