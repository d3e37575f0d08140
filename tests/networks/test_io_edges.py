from typing import Any

import pytest

from veilsum.errors import NetworkError
from veilsum.networks import load, read_edges


@pytest.fixture
def write(tmp_path: Any) -> Any:
    def writer(text: Any, name: Any = "links.csv") -> Any:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return writer


def test_words_with_a_header_and_comments(write: Any) -> None:
    graph = read_edges(write("# a comment\nsource,target\n\nb, a\na,c # why\n"))
    assert list(graph.labels) == ["b", "a", "c"]
    assert graph.links.tolist() == [[0, 1], [1, 2]]
    assert graph.name == "links"


@pytest.mark.parametrize("header", ["", "source,target\n", "meter,neighbour\n", "\ufefffrom,to\n"])
def test_integers_are_sorted_whatever_the_header(write: Any, header: Any) -> None:
    graph = read_edges(write(header + "10,7\n7,30\n"))
    assert list(graph.labels) == [7, 10, 30]
    assert graph.links.tolist() == [[0, 1], [0, 2]]


def test_words_without_a_header_are_all_links(write: Any) -> None:
    assert len(read_edges(write("a,b\nb,c\n")).links) == 2


def test_duplicates_merge_in_either_direction_unless_directed(write: Any) -> None:
    path = write("0,1\n1,0\n0,1\n1,2\n")
    assert len(read_edges(path).links) == 2
    directed = load(path, directed=True)
    assert directed.directed
    assert directed.links.tolist() == [[0, 1], [1, 0], [1, 2]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1\n1,2,3\n", r"links.csv, line 2: found 3 cells, expected 2"),
        ("0,1\n\n1\n", r"links.csv, line 3: found 1 cells"),
        ("0,1\n1,\n", r"line 2: an end is missing"),
        ("# c\n0,1\n4,4\n", r"links.csv, line 3: self-loop at agent 4 .index 2.; remove"),
        ("# nothing\n", "has no links"),
        ("source,target\n", "has no links"),
    ],
)
def test_errors_name_the_file_and_the_line(write: Any, text: Any, message: Any) -> None:
    with pytest.raises(NetworkError, match=message):
        read_edges(write(text))


def test_a_file_that_is_not_there_or_not_text(tmp_path: Any) -> None:
    with pytest.raises(NetworkError, match=r"none.csv cannot be read: No such file"):
        load(tmp_path / "none.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(NetworkError, match="not a UTF-8 text file"):
        load(str(tmp_path / "binary.csv"))
    (tmp_path / "nul.csv").write_bytes(b"source,target\na,b\nb\x00,c\n")
    with pytest.raises(NetworkError, match=r"nul.csv, line 3: a label has a character .* NUL"):
        load(str(tmp_path / "nul.csv"))
    with pytest.raises(NetworkError, match=r"option \(directed\); found 'size'"):
        load(tmp_path / "binary.csv", size=3)


@pytest.mark.parametrize("header", ["target,source", "to,from", "Head,Tail", "receiver,sender"])
@pytest.mark.parametrize("words", [False, True])
def test_a_reversed_header_swaps_the_columns(write: Any, header: Any, words: Any) -> None:
    rows = "b,a\nc,a\n" if words else "1,0\n2,0\n"
    graph = read_edges(write(f"{header}\n{rows}"), directed=True)
    sent = {(graph.labels[i], graph.labels[j]) for i, j in graph.links}
    assert sent == ({("a", "b"), ("a", "c")} if words else {(0, 1), (0, 2)})


@pytest.mark.parametrize("header", ["source,target", "from,to", "tail,head", "src,dst"])
def test_an_arc_runs_from_its_tail_to_its_head(write: Any, header: Any) -> None:
    graph = read_edges(write(f"{header}\na,b\n"), directed=True)
    assert [graph.labels[k] for k in graph.links[0]] == ["a", "b"]
