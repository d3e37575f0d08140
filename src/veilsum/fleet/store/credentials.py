"""Where credentials come from: never from the address, which stands in site.toml.

==========  ======================================================================================
s3          AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT_URL;
            else AWS_PROFILE of ~/.aws/credentials and ~/.aws/config; else the machine's role
gs, az      what Google's and Azure's own tools read: GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_*
https       VEILSUM_STORE_USER and VEILSUM_STORE_PASSWORD; else NETRC or ~/.netrc
all         HTTPS_PROXY, HTTP_PROXY, NO_PROXY; SSL_CERT_FILE: a file with the private authority
==========  ======================================================================================
"""

from __future__ import annotations

import os
from configparser import ConfigParser
from configparser import Error as ConfigError
from netrc import NetrcParseError, netrc
from pathlib import Path

from veilsum.errors import StoreDeniedError


def login_for(host: str) -> tuple[str, str] | None:
    """User and password for a host: of the environment, else of the user's netrc."""
    user, password = (os.environ.get(f"VEILSUM_STORE_{part}") for part in ("USER", "PASSWORD"))
    if user and password:
        return user, password
    file = Path(os.environ.get("NETRC", "~/.netrc")).expanduser()
    if not file.exists():
        return None
    try:
        found = netrc(file).authenticators(host)
    except (NetrcParseError, OSError):  # whose text may quote a password
        raise StoreDeniedError(f"{file}: cannot be read as netrc; correct it") from None
    return (found[0], found[2] or "") if found else None


def aws_files() -> dict[str, str]:
    """What AWS's own files say of the profile, where the environment does not."""
    profile = os.environ.get("AWS_PROFILE", "default")
    secret = _section("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", profile)
    named = profile if profile == "default" else f"profile {profile}"
    config = _section("AWS_CONFIG_FILE", "~/.aws/config", named)
    keys = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
    found: dict[str, str] = {}
    if not os.environ.get("AWS_ACCESS_KEY_ID"):
        found |= {key: secret[key] for key in keys if key in secret}
    if "region" in config and not os.environ.get("AWS_REGION"):
        found["region"] = config["region"]
    if "endpoint_url" in config and not os.environ.get("AWS_ENDPOINT_URL"):
        found["endpoint"] = config["endpoint_url"]
    return found


def _section(variable: str, usual: str, name: str) -> dict[str, str]:
    parser = ConfigParser(interpolation=None)
    file = Path(os.environ.get(variable, usual)).expanduser()
    try:
        parser.read(file, encoding="utf-8")
    except (ConfigError, UnicodeDecodeError):  # whose text may quote a secret
        raise StoreDeniedError(f"{file}: cannot be read as AWS writes it; correct it") from None
    return dict(parser[name]) if parser.has_section(name) else {}
