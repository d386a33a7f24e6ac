"""A server of Kerberos for tests: Debian's krb5kdc on a port of loopback, with its own realm, files and principals.

Needs the packages krb5-kdc, krb5-admin-server and krb5-user. Nothing of the system is read or changed.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

from ottla.local.ports import free_port
from tests.support.waiting import wait_until

REALM = "OTTLA.TEST"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_PLACES = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def found_program(name: str) -> str | None:
    """The path of a program, also of one for administrators only."""
    return shutil.which(name, path=_PLACES)


class Kdc:
    """A running server. `environment` makes programs and libraries use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.environment = {
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{folder / 'no-tickets'}",
            "KRB5RCACHENAME": f"file2:{folder / 'replays'}",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Kdc:
        self._write_settings()
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master-secret")
        with (self.folder / "kdc.out").open("wb") as output:
            self._process = subprocess.Popen(
                [str(found_program("krb5kdc")), "-n", "-r", REALM, "-P", str(self.folder / "pid")],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | self.environment,
            )
        wait_until(self._answers, "the server of Kerberos")
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)

    def add(self, principal: str, *options: str) -> Path:
        """Create a principal with a random key; return the key table that has it."""
        self._admin(f"addprinc -randkey {' '.join(options)} {principal}")
        return self.key_table(principal)

    def key_table(self, principal: str, *others: str) -> Path:
        """A new key table with the current key of a principal, and those of others."""
        path = self.folder / f"{principal.replace('/', '-')}.keytab"
        path.unlink(missing_ok=True)
        self._admin(f"ktadd -norandkey -k {path} {' '.join([principal, *others])}")
        return path

    def change_key(self, principal: str) -> None:
        """Give a principal another key; key tables made before have the old one only."""
        self._admin(f"cpw -randkey {principal}")

    def tickets(self, principal: str, *options: str) -> str:
        """Log in with the key table of a principal; return the name of the new ticket cache."""
        cache = f"FILE:{self.folder / principal.replace('/', '-')}.tickets"
        table = self.folder / f"{principal.replace('/', '-')}.keytab"
        self._run("kinit", *options, "-c", cache, "-k", "-t", str(table), principal)
        return cache

    def _answers(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def _admin(self, query: str) -> None:
        self._run("kadmin.local", "-r", REALM, "-q", query)

    def _run(self, program: str, *arguments: str) -> None:
        ran = subprocess.run(
            [str(found_program(program)), *arguments],
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == 0, f"{program} {' '.join(arguments)}: {ran.stdout}{ran.stderr}"

    def _write_settings(self) -> None:
        (self.folder / "krb5.conf").write_text(
            f"""[libdefaults]
    default_realm = {REALM}
    dns_lookup_realm = false
    dns_lookup_kdc = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
    ticket_lifetime = 1h
[realms]
    {REALM} = {{
        kdc = 127.0.0.1:{self.port}
    }}
[domain_realm]
    localhost = {REALM}
"""
        )
        (self.folder / "kdc.conf").write_text(
            f"""[realms]
    {REALM} = {{
        kdc_listen = 127.0.0.1:{self.port}
        kdc_tcp_listen = 127.0.0.1:{self.port}
        database_name = {self.folder / "principal"}
        key_stash_file = {self.folder / "stash"}
        acl_file = {self.folder / "kadm5.acl"}
        max_life = 1d
        supported_enctypes = aes256-cts:normal aes128-cts:normal
    }}
[logging]
    kdc = FILE:{self.folder / "kdc.log"}
    admin_server = FILE:{self.folder / "kadmin.log"}
    default = FILE:{self.folder / "krb5.log"}
"""
        )
