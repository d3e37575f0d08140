"""House rules: imports go one way and stay light, names are unique, words are the field's."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "veilsum"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
PAGES = [
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
    *(ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING", "SECURITY")),
]

HEAVY = {
    "cvxpy", "dp_accounting", "matplotlib", "networkx", "numba", "pandas", "pyarrow", "pydantic",
    "rich", "scipy", "typer", "zenoh", "cryptography", "prometheus_client", "mpi4py",
    "starlette", "uvicorn", "jinja2",
}  # fmt: skip

ORDER = (  # each part imports those before it at most; top-level modules are parts too
    "errors", "_extras", "_lazy", "_warn", "_validate", "_numbers", "_registry", "_memory", "_toml",
    "_statistic", "_types",
    "networks",
    "families", "signals", "algorithms", "privacy", "questions", "asking", "fleet", "simulation", "auditing",
    "theory", "results",
    "front", "_edge", "api",
    "scenario", "agents", "reports", "live", "testing", "paper", "cli",
)  # fmt: skip
ALONE = {  # and these less than that
    "families": {"networks"},
    "signals": {"networks"},
    "algorithms": {"networks", "families", "signals"},
    "privacy": {"networks", "signals"},
    "theory": {"auditing"},
}

BANNED = {  # word, anywhere -> the field's word
    "life": "incarnation",
    "lives": "incarnations; of a value: is stored",
    "told": "described; of an event: received",
    "blamed": "attributed",
    "drawer": "release mechanism",
    "shelf": "task cache",
    "voice": "observability",
    "hush": "silence_other_ranks",
    "intake": "reading scheduler",
    "ground": "partitioned network",
    "standing": "status",
}
BANNED_IDENTIFIERS = {  # name in code -> the field's word; in prose it may be an English verb
    "want": "privacy request",
    "combine": "update",
    "recall": "momentum",
}
BANNED_CLASSES = {
    "Drawn": "SyntheticSignals", "Observed": "RecordedSignals", "Means": "ExecutionOptions",
    "Held": "RankState", "Extremes": "RangeReport",
    "Totals": "CumulativeMass", "Flows": "Mass",
    "Ticks": "AsynchronousSchedule", "Phases": "TerminationDetector",
    "Given": "IterableReadings", "Follow": "CsvReadings", "Spent": "cost", "Loss": "PrivacyEvent",
    "Worst": "WorstMove, or WorstPair",
}  # fmt: skip
ALLOWED = re.compile(  # expressions that contain a banned word in its common meaning
    r"background|long[- ]standing|playground|underground"
    r"|name = 'life'",  # a ledger of an earlier format
    re.I,
)
PHRASES = {  # pattern -> the field's words
    r"\bone's own\b|(?<=_)ones_own|(?<= )of_ones_own": "custom, or per-agent",
    r"(?:\b|_)a algorithm|_a_algorithm": "an algorithm",
}


def loaded_by(code: str) -> set[str]:
    listing = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", listing], check=True, capture_output=True, text=True
    )
    return set(done.stdout.split())


def test_importing_veilsum_is_light() -> None:
    assert not loaded_by("import veilsum") & (HEAVY | {"numpy"})


def test_importing_the_parts_loads_only_what_they_need() -> None:
    light = "import veilsum.networks, veilsum.families, veilsum.signals, veilsum.algorithms"
    assert not loaded_by(light) & (HEAVY - {"scipy"})


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def part_of(path: Path) -> str:
    """The first-level package or module of a source file; the file itself elsewhere."""
    if path.is_relative_to(SOURCE):
        return path.relative_to(SOURCE).parts[0].removesuffix(".py")
    return str(path.relative_to(ROOT))


def sources() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def only_for_types(path: Path) -> set[ast.AST]:
    """What is below `if TYPE_CHECKING`."""
    return {
        inner
        for node in ast.walk(tree(path))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }


def imports(path: Path) -> set[str]:
    """First-level parts of veilsum that a file imports when it runs, type checking aside."""
    found = set()
    typing = only_for_types(path)
    for node in ast.walk(tree(path)):
        names = []
        if node in typing:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        found |= {n.split(".")[1] for n in names if n.startswith("veilsum.")}
    return found


FOR_PEOPLE = {"rich", "jinja2", "markupsafe", "matplotlib"}
SHOWS = {"front", "live", "agents"}  # agents until they are rebuilt


def packages(path: Path) -> set[str]:
    """Packages that a file imports when it runs, type checking aside."""
    typing = only_for_types(path)
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        if node in typing:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Import):
            found |= {a.name.partition(".")[0] for a in node.names}
    return found


def test_only_the_front_makes_text_pages_and_pictures_for_people() -> None:
    for path in sources():
        if part_of(path) not in SHOWS:
            wrong = packages(path) & FOR_PEOPLE
            assert not wrong, f"{path.relative_to(SOURCE)} imports {sorted(wrong)}"


def test_every_part_has_a_place_in_the_order() -> None:
    parts = {part_of(path) for path in sources()} - {"__init__"}
    assert parts <= set(ORDER), f"add {sorted(parts - set(ORDER))} to ORDER"


@pytest.mark.parametrize("part", ORDER)
def test_imports_go_one_way(part: str) -> None:
    later = {*ORDER[ORDER.index(part) + 1 :], *ALONE.get(part, ())}
    for path in sources():
        if part_of(path) == part:
            wrong = imports(path) & later
            assert not wrong, f"{path.relative_to(SOURCE)} imports {sorted(wrong)}"


def classes() -> Iterator[tuple[str, Path]]:
    for path in sources():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                yield node.name, path


def test_no_class_name_is_defined_twice() -> None:
    places = defaultdict(list)
    for name, path in classes():
        places[name].append(str(path.relative_to(SOURCE)))
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert not twice, twice


def identifiers(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        for field in ("id", "arg", "attr", "name"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield name


def split(name: str) -> set[str]:
    """Words of an identifier or a text, lower case, camel case taken to pieces."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def written() -> list[Path]:
    """Everything that people read: source, tests, benchmarks, examples, tools and pages."""
    folders = ("tests", "benchmarks", "tools", "docs")
    code = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    examples = [p for p in sorted((ROOT / "examples").iterdir()) if p.suffix in (".toml", ".py")]
    found = [*sources(), *code, *examples, *PAGES, ROOT / "CHANGELOG.md"]
    return [path for path in found if path != Path(__file__).resolve()]


def used_words() -> Iterator[tuple[str, str]]:
    """(banned word, place) for every occurrence; a verb may be in the name of a test."""
    for path in written():
        text = ALLOWED.sub(" ", path.read_text(encoding="utf-8"))
        found = split(text) & BANNED.keys()
        found |= {phrase for phrase in PHRASES if re.search(phrase, text)}
        if path.suffix == ".py":
            names = set(identifiers(path)) - {"shares_memory"}
            names = {name for name in names if not name.startswith("test_")}
            found |= BANNED_IDENTIFIERS.keys() & {w for name in names for w in split(name)}
            found |= BANNED_CLASSES.keys() & {
                node.name for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)
            }
        yield from ((word, str(path.relative_to(ROOT))) for word in found)


def test_words_are_those_of_the_field() -> None:
    used = set(used_words())
    better = BANNED | BANNED_IDENTIFIERS | BANNED_CLASSES | PHRASES
    wrong = [f"{place}: {word} -> {better[word]}" for word, place in sorted(used)]
    assert not wrong, "\n".join(wrong)


def test_the_word_check_finds_a_banned_word() -> None:
    assert "shelf" in split("def read_shelf(): ...") & BANNED.keys()
    assert "voice" in split("class VoiceLog:") & BANNED.keys()
    assert not split(ALLOWED.sub(" ", "in the background")) & BANNED.keys()
    (own, _) = PHRASES
    assert re.search(own, "a family of one's own")


@cache
def definitions() -> dict[str, list[ast.AST]]:
    """Modules, classes and functions by dotted name without the package, and by their last parts.

    `algorithms.base.step` is found as that, as `base.step` and as `step`.
    """
    found: dict[str, list[ast.AST]] = defaultdict(list)

    def add(name: str, node: ast.AST) -> None:
        parts = name.split(".")
        for first in range(len(parts)):
            found[".".join(parts[first:])].append(node)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                add(f"{name}.{child.name}", child)
            elif isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
                add(f"{name}.{child.target.id}", child)
            elif isinstance(child, ast.Assign):
                for target in child.targets:
                    if isinstance(target, ast.Name):
                        add(f"{name}.{target.id}", child)
            elif isinstance(child, ast.ImportFrom):  # a name that a package offers
                for alias in child.names:
                    found[f"{name.split('.')[-1]}.{alias.asname or alias.name}"].append(child)

    for path in sources():
        parts = path.relative_to(SOURCE).with_suffix("").parts
        add(".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "veilsum", tree(path))
    lazy = re.compile(r'"(\w+)"')
    for path in SOURCE.rglob("__init__.py"):  # names that a package imports when first used
        for node in only_for_types(path):
            for alias in node.names if isinstance(node, ast.ImportFrom) else ():
                found[f"{path.parent.name}.{alias.asname or alias.name}"].append(node)
        for name in lazy.findall(path.read_text(encoding="utf-8")):
            found[f"{path.parent.name}.{name}"].append(tree(path))
    return found


def architecture() -> str:
    return ARCHITECTURE.read_text(encoding="utf-8")


def drawn_paths(text: str) -> Iterator[str]:
    """Paths of the tree at the top of the page: two spaces in is a part, four inside a part."""
    block = text.split("```")[1]
    part = ""
    for line in block.splitlines():
        indented = re.match(r"( +)((?:[\w./]+(?:, )?)+)", line)
        if indented is None or len(indented[1]) not in (2, 4):
            continue
        names = [name for name in indented[2].split(", ") if name.endswith(("/", ".py"))]
        if len(indented[1]) == 2 and names:
            part = names[0]
            yield part
        else:
            yield from (f"{part}{name}" for name in names)


def test_paths_in_the_architecture_exist() -> None:
    text = architecture()
    paths = [*drawn_paths(text), *re.findall(r"`([\w.]+/[\w./]*)`", text)]
    assert len(paths) > 10
    missing = [path for path in paths if not any((r / path).exists() for r in (SOURCE, ROOT))]
    assert not missing, missing


FILES = (  # and hosts
    ".py", ".md", ".toml", ".json", ".csv", ".lock", ".key", ".gz", ".npz", ".yml", ".yaml", ".html", ".pem",
    ".budget", ".db",
    ".example", ".request", ".secret",
)  # fmt: skip
VARIABLES = {
    "answers",
    "result",
    "found",
    "network",
    "node",
    "P",
}  # of the pages' examples: the last part is known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_dotted_names_in_the_pages_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    names = set(re.findall(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\(.*?\))?`", text))
    names = {name for name in names if not name.endswith(FILES) and name != "vX.Y.Z"}
    assert names or page != ARCHITECTURE
    missing = [name for name in sorted(names) if not is_defined(name)]
    assert not missing, missing


def is_defined(name: str) -> bool:
    """Whether veilsum defines it, a base class for a class; names of numpy are not looked up."""
    parts = name.removeprefix("veilsum.").split(".")
    if parts[0] in ("np", "numpy") or ".".join(parts) in definitions():
        return True
    if parts[0] in VARIABLES:
        return parts[-1] in definitions()
    bases = [
        ast.unparse(base)
        for node in definitions().get(".".join(parts[:-1]), ())
        if isinstance(node, ast.ClassDef)
        for base in node.bases
    ]
    offered = f"{parts[-2]}.{parts[-1]}" in definitions()  # by a package, from one of its modules
    return offered or any(is_defined(f"{base}.{parts[-1]}") for base in bases)


def test_the_check_of_dotted_names_finds_one_that_does_not_exist() -> None:
    assert is_defined("algorithms.step")
    assert is_defined("LaplaceMechanism.release")  # of its base class
    assert not is_defined("LaplaceMechanism.frobnicate")
    assert not is_defined("mechanisms.SmoothLaplace")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_of_the_repository_that_pages_name_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    paths = re.findall(r"`((?:tests|src|docs|benchmarks|examples|tools)/[\w./-]*)`", text)
    missing = [path for path in paths if not (ROOT / path).exists()]
    assert not missing, missing


def calls_of(text: str) -> list[tuple[str, str]]:
    """Rows of the table `| caller | calls |`, names without backticks."""
    table = text.split("| caller | calls |")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return [
        (caller.strip("`"), callee.strip("` "))
        for caller, calls in (row for row in rows if len(row) == 2 and "`" in row[0])
        for callee in calls.split(",")
    ]


def contains_call(caller: str, callee: str) -> bool:
    """Whether a module, class or function of that name contains a call of the other name."""
    name = callee.split(".")[-1]
    return any(
        isinstance(node, ast.Call)
        and name in (getattr(node.func, "id", None), getattr(node.func, "attr", None))
        for definition in definitions()[caller]
        for node in ast.walk(definition)
    )


def test_who_calls_whom_is_as_the_architecture_says() -> None:
    rows = calls_of(architecture())
    assert len(rows) > 5
    wrong = [
        f"{caller} calls {callee}" for caller, callee in rows if not contains_call(caller, callee)
    ]
    assert not wrong, wrong


def test_the_call_check_finds_a_false_row() -> None:
    text = "| caller | calls |\n|---|---|\n| `privacy.guarantee_of` | `simulate` |\n\n"
    assert calls_of(text) == [("privacy.guarantee_of", "simulate")]
    assert not contains_call("proofs.guarantee_of", "simulate")
    assert contains_call("proofs.guarantee_of", "coefficient_table")
