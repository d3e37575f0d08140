"""A complete setup of one site: scenario, agent.toml, readings, and keys on request."""

import atexit
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from veilsum.agents.pki import Authority, SigningKey

SCENARIO = """\
name = "suppliers"

[network]
graph = "links.csv"
weights = "lazy-metropolis"

[family]
name = "normal"
sigma = 10.0
bounds = [0.0, 100.0]

[signals]
draw = { mu = 50.0 }

[privacy]
protect = "signal"
epsilon = 1.0
radius = inf

[algorithm]
name = "average"
rounds = 60
"""
LINKS = "source,target\nnorth,east\neast,west\n"
AGENT = """\
name = "north"
scenario = "scenario.toml"
listen = ["tls/127.0.0.1:0"]

[peers]
east = "tls/127.0.0.1:7448"

[keys]
folder = "keys"

[ledger]
path = "north.ledger"

[budget]
epsilon = 1.0

[readings]
csv = "readings.csv"
column = "load"
"""
MASKED = {  # what changes the scenario into a masked sum
    "radius = inf": 'radius = inf\nmode = "masked"\ncolluders = 1',
    'name = "average"': 'name = "masked-sum"',
}
NONCE = "00112233445566778899aabbccddeeff"
PINS = f'\n[agents]\nnonce = "{NONCE}"\nsigning_keys = "signing-keys.toml"\n'
READINGS = "hour,load\n1,42.5\n2,43.5\n"


def write_setup(folder: Path, keys: bool = False) -> Path:
    """Write the files of north; with `keys` the certificates of north and east."""
    texts = {"scenario.toml": SCENARIO, "links.csv": LINKS, "agent.toml": AGENT}
    for name, text in (texts | {"readings.csv": READINGS}).items():
        (folder / name).write_text(text)
    if keys:
        (folder / "keys").mkdir(mode=0o700)
        for name in ("ca.pem", "north.pem", "north.key", "east.pem", "east.key"):
            made = folder / "keys" / name
            made.write_bytes((authority() / name).read_bytes())
            made.chmod(0o600)
    return folder


def write_masked_setup(folder: Path, keys: bool = False) -> Path:
    """The same for a masked sum: the signing key of north, and the pinned keys of all."""
    write_setup(folder, keys)
    text = SCENARIO
    for old, new in MASKED.items():
        text = text.replace(old, new)
    (folder / "scenario.toml").write_text(text + PINS)
    (folder / "keys").mkdir(mode=0o700, exist_ok=True)
    made = {}
    for name in ("north", "east", "west"):
        file = folder / "keys" / f"{name}.signing.key"
        made[name] = SigningKey.create(file).public
        if name != "north":
            file.unlink()
    lines = [f'{name} = "{key}"' for name, key in made.items()]
    (folder / "signing-keys.toml").write_text("\n".join(["[signing_keys]", *lines, ""]))
    return folder


@cache
def authority() -> Path:
    """An authority with certificates for north and east, made once."""
    home = Path(mkdtemp(prefix="veilsum-authority-"))
    atexit.register(shutil.rmtree, home)
    made = Authority.create(home)
    for name in ("north", "east"):
        made.issue(name, ["127.0.0.1"])
    return home
