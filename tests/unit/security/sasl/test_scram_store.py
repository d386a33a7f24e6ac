"""Credentials of users, tokens and unknown users."""

from __future__ import annotations

import msgspec

from ottla.base.promise import Promise
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.records import DelegationTokenRecord, UserScramCredentialRecord
from ottla.security.sasl.exchange import Identity, run_client
from ottla.security.sasl.scram import Found, ScramServer, scram_client
from ottla.security.sasl.scram_store import ScramStore, token_password
from ottla.security.scram_keys import ScramMechanism
from ottla.testing.executor import InlineExecutor
from tests.unit.security.sasl.test_scram import made

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
NOW_MS = 1_000_000


class FixedClock:
    def now_ms(self) -> int:
        return NOW_MS

    def monotonic(self) -> float:
        return 0.0


def user(
    name: str, mechanism: ScramMechanism = SHA_256, salt: bytes = b"0123456789", iterations: int = 8192
) -> UserScramCredentialRecord:
    kept = made(mechanism, "s3cret", salt, iterations)
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism.value,
        salt=kept.salt,
        stored_key=kept.stored_key,
        server_key=kept.server_key,
        iterations=kept.iterations,
    )


def image_of(
    *users: UserScramCredentialRecord, tokens: tuple[DelegationTokenRecord, ...] = ()
) -> MetadataImage:
    return msgspec.structs.replace(
        EMPTY_IMAGE,
        scram={(each.name, each.mechanism): each for each in users},
        tokens={each.token_id: each for each in tokens},
    )


class Store:
    def __init__(
        self, image: MetadataImage, secret: bytes = b"secret", token_secret: str | None = "key"
    ) -> None:
        self.image = image
        self.executor = InlineExecutor(stepped=True)
        self.store = ScramStore(
            SHA_256, lambda: self.image, secret, token_secret, FixedClock(), self.executor
        )

    def find(self, name: str, *, token: bool = False) -> Found:
        found = self.store.find(name, token)
        if isinstance(found, Promise):
            self.executor.run_all()
            return found.result()
        return found


def token(expires_ms: int = NOW_MS + 1000) -> DelegationTokenRecord:
    return DelegationTokenRecord(owner="User:alice", token_id="t1", expiration_timestamp=expires_ms)


class TestUsers:
    def test_a_user_of_the_mechanism(self) -> None:
        record = user("alice")
        found = Store(image_of(record)).find("alice")
        assert found.identity == Identity("alice")
        assert found.credential.stored_key == record.stored_key

    def test_a_user_of_the_other_mechanism_is_unknown(self) -> None:
        assert Store(image_of(user("alice", SHA_512))).find("alice").identity is None

    def test_a_removed_user_is_unknown(self) -> None:
        store = Store(image_of(user("alice")))
        store.image = image_of()
        assert store.find("alice").identity is None


class TestUnknownUsers:
    def test_the_same_salt_on_every_node(self) -> None:
        image = image_of(user("alice"))
        assert Store(image).find("eve").credential == Store(image).find("eve").credential
        assert Store(image, b"other").find("eve").credential.salt != Store(image).find("eve").credential.salt
        assert Store(image).find("eve").credential.salt != Store(image).find("eva").credential.salt

    def test_the_form_that_most_users_have(self) -> None:
        others = [user("bob", salt=bytes(range(64)), iterations=4096), user("x", SHA_512, b"a" * 20)]
        fake = Store(image_of(user("alice"), user("carol"), *others)).find("eve").credential
        assert (fake.iterations, len(fake.salt)) == (8192, 10)
        assert fake.salt.isalnum()
        assert len(fake.stored_key) == 32

    def test_the_form_does_not_depend_on_the_other_mechanism(self) -> None:
        others = [user(name, SHA_512, b"a" * 20, 4096) for name in ("x", "y", "z")]
        fake = Store(image_of(*others, user("alice"))).find("eve").credential
        assert (fake.iterations, len(fake.salt)) == (8192, 10)

    def test_binary_salts(self) -> None:
        fake = Store(image_of(user("alice", salt=bytes(range(64))))).find("eve").credential
        assert len(fake.salt) == 64
        assert not fake.salt.isalnum()

    def test_without_users(self) -> None:
        fake = Store(image_of()).find("eve").credential
        assert (fake.iterations, len(fake.salt)) == (4096, 26)


class TestTokens:
    def authenticate(self, store: Store, password: str) -> ScramServer:
        side = ScramServer(SHA_256, lambda name, is_token: store.find(name, token=is_token), "x")

        def send(message: bytes) -> bytes:
            response = side.respond(message)
            assert isinstance(response, bytes)
            return response

        run_client(scram_client(SHA_256, "t1", password, "y", token=True), send)
        return side

    def test_the_owner_is_authenticated(self) -> None:
        store = Store(image_of(tokens=(token(),)))
        side = self.authenticate(store, token_password("key", "t1"))
        assert side.identity == Identity("alice", token_authenticated=True, expires_ms=NOW_MS + 1000)

    def test_the_credential_is_derived_once(self) -> None:
        store = Store(image_of(tokens=(token(),)))
        assert isinstance(store.store.find("t1", True), Promise)
        store.executor.run_all()
        assert isinstance(store.store.find("t1", True), Found)

    def test_an_expired_token_is_unknown(self) -> None:
        assert Store(image_of(tokens=(token(NOW_MS),))).find("t1", token=True).identity is None

    def test_a_removed_token_is_unknown(self) -> None:
        store = Store(image_of(tokens=(token(),)))
        store.find("t1", token=True)
        store.image = image_of()
        assert store.find("t1", token=True).identity is None

    def test_a_renewed_token_has_its_new_expiry(self) -> None:
        store = Store(image_of(tokens=(token(),)))
        store.find("t1", token=True)
        store.image = image_of(tokens=(token(NOW_MS + 5000),))
        identity = store.find("t1", token=True).identity
        assert identity is not None
        assert identity.expires_ms == NOW_MS + 5000

    def test_without_a_secret_tokens_are_unknown(self) -> None:
        store = Store(image_of(tokens=(token(),)), token_secret=None)
        assert store.find("t1", token=True).identity is None

    def test_a_user_is_no_token_and_a_token_is_no_user(self) -> None:
        store = Store(image_of(user("alice"), tokens=(token(),)))
        assert store.find("alice", token=True).identity is None
        assert store.find("t1").identity is None
