"""Posts of a secure sum, as a board shows them: pure functions of the set of posts.

    Key      who keeps, and with which X25519 key for this question
    Query    who is asked, of which keepers: by hashes of their Keys        by the asker
    Deal     first 8 bytes of q, the deal                                   one a site
    Roster   which deals are summed                                         by the asker
    Answer   the keeper's shares of the sum; empty: it never answers        one a keeper

Whoever signs two Keys or two Deals cannot stop the others: the asker posts the Query again with the Keys,
and the Roster with the Deals, that it named (*carried*). Neither changes what is asked or summed.

A store, an asker and c keepers can make up a query of other numbers, and answer it. So a sum is shown only
if more than c keepers agree on it, one of whom at least found the query as the authority signed it. After an
epoch that raises c, a sum of few keepers is not shown any more: nobody could tell it from a forged one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache

from veilsum.errors import FleetError
from veilsum.fleet.answers import BoardAnswer, Posted, sites_of
from veilsum.fleet.board import Board
from veilsum.fleet.membership import KEEPER, SITE, Membership
from veilsum.fleet.post import SALT, Header, Kind, Post, Topic, pack, unpack
from veilsum.fleet.question import FleetQuestion
from veilsum.fleet.release_rules import check_room
from veilsum.fleet.secure_sum.blame import Accused, blame
from veilsum.fleet.secure_sum.close import CLOSED
from veilsum.fleet.secure_sum.deal import valid_deal
from veilsum.fleet.secure_sum.numbers import ALL_KEEP, SumNumbers, most_drawn, suggested
from veilsum.fleet.secure_sum.query import SumQuery, read_key
from veilsum.fleet.secure_sum.roster import SumRoster, deal_hash
from veilsum.fleet.secure_sum.total import SumFound, total
from veilsum.privacy.laws import Law

PREFIX = 10  # bytes of a key in a Query
MARK = 8  # bytes of q before a deal
SIGNED = tuple(one.name for one in fields(SumNumbers) if one.name not in ("sites", "pack"))


# ---- numbers


def numbers_of(membership: Membership, sites: int | None = None) -> SumNumbers:
    """The numbers of a secure sum over so many sites of an epoch, as the authority signed them.

    Who may collude does not shrink with those who take part; each site that does not is one of those that
    may be absent.

    In fleets of more than 500 sites the authority names the keepers, by role, and signs how many of them may
    collude. It draws them by chance after the last site was admitted: whoever draws could as well admit sites
    of his own, so that nobody new has to be trusted, and there is no beacon that others could try out.
    """
    everyone, keepers = len(membership.having(SITE)), len(membership.having(KEEPER))
    usual, given = suggested(everyone), {k: v for k, v in membership.sums.items() if k in SIGNED}
    if everyone > ALL_KEEP and ("colluding" not in given or keepers > ALL_KEEP):
        raise FleetError(_name_keepers(everyone, keepers, usual.corrupt))
    count = everyone if sites is None else sites
    if count > everyone:
        raise FleetError(f"a query lists {count} sites, and the membership has {everyone}")
    absent = max(0, given.get("absent", usual.absent) - (everyone - count))
    return replace(usual, **{"keepers": keepers, **given, "sites": count, "absent": absent})


def _name_keepers(sites: int, keepers: int, corrupt: int) -> str:
    few = min(keepers, 200)
    return (
        f"in a fleet of {sites:,} sites the authority names up to {ALL_KEEP} keepers and signs how many of "
        f"them may collude; found {keepers:,} with the role keeper. Draw {few} by chance, take the role from "
        f"the others, and sign colluding = {most_drawn(sites, corrupt, few)}"
    )


def query_name(question: FleetQuestion) -> str:
    """Under which every site deals once."""
    return question.digest.hex()


def bound_of(question: FleetQuestion, numbers: SumNumbers) -> int:
    """The largest plausible sum."""
    check_room(question, numbers.sites)
    largest = max(question.bound(question.most_records))
    return max(_plausible(numbers, largest, law) for law in set(question.laws))


@lru_cache(256)
def _plausible(numbers: SumNumbers, largest: int, law: Law) -> int:
    return numbers.plausible(largest, law)


# ---- Key and Query


@dataclass(frozen=True)
class PostedQuery:
    """A Query as it stands on a board: what is asked, and the Keys that it carries."""

    query: SumQuery
    carried: tuple[Post, ...] = ()

    @property
    def body(self) -> bytes:
        """The sites that take part, all else, and posts of Keys that keepers have replaced."""
        sites = b"".join(key[:PREFIX] for _, key in self.query.sites)
        return pack((sites, self.query.body, *(post.data for post in self.carried)))

    @classmethod
    @lru_cache(64)  # several times a step
    def read(cls, membership: Membership, body: bytes) -> PostedQuery:
        """Of a body: sites by the first bytes of keys, which the membership keeps for ever."""
        sites, *parts = unpack(body)
        if not parts or len(sites) % PREFIX:
            raise FleetError("a Query is not written as one")
        known = {key[:PREFIX]: (member.name, key) for key, member in membership.keys.items()}
        prefixes = [sites[at : at + PREFIX] for at in range(0, len(sites), PREFIX)]
        if not all(prefix in known for prefix in prefixes):
            raise FleetError("a Query lists a site that the membership does not name")
        query = SumQuery.read(parts[0], tuple(known[prefix] for prefix in prefixes))
        return cls(query, tuple(map(Post.parse, parts[1:])))


def posted_query(board: Board, posted: Posted) -> PostedQuery | None:
    """The query that the asker of a question posted, if there is a readable one."""
    if board.membership is None:
        return None
    for key in posted.asker.keys:
        post = board.register_of(Kind.QUERY, posted.terms, key).post
        if post is None:
            continue
        try:
            found = PostedQuery.read(board.membership, post.body)
        except FleetError:
            continue
        if found.query.name == query_name(posted.question) and found.query.proposer == key:
            return found
    return None


def query_of(board: Board, posted: Posted) -> SumQuery | None:
    """The query alone."""
    found = posted_query(board, posted)
    return None if found is None else found.query


def keys_of(board: Board, posted: Posted) -> dict[str, Post]:
    """The newest Key of each keeper's present key, for this question."""
    posts = board.opened(Kind.KEY, posted.terms)
    found = {m.name: posts.get(m.public) for m in board.having(KEEPER)}
    return {name: post for name, post in found.items() if post is not None and _names(post, posted)}


def _names(post: Post, posted: Posted) -> bool:
    """Whether it is a Key for this question."""
    try:
        return read_key(post.body)[0] == query_name(posted.question)
    except FleetError:
        return False


def listed_keys(board: Board, posted: Posted) -> dict[str, Post]:
    """Posts of the Keys that the query lists, by keeper, as far as they are on the board or in the Query.

    Each is signed by a key that this keeper has, or had.
    """
    asked, membership = posted_query(board, posted), board.membership
    if asked is None or membership is None:
        return {}
    shown = [*board.all_opened(Kind.KEY, posted.terms), *asked.carried]
    by_hash = {post.header.hash: post for post in shown if post.header.kind is Kind.KEY}
    found = {}
    for keeper in asked.query.keepers:
        post, member = by_hash.get(keeper.post), membership.get(keeper.label)
        if post is None or member is None or post.header.key not in member.keys:
            continue
        if post not in asked.carried or _signed(post):
            found[keeper.label] = post
    return found


def _signed(post: Post) -> bool:
    try:
        post.header.check()
    except FleetError:
        return False
    return True


def check_query(board: Board, posted: Posted, query: SumQuery) -> None:
    """Rule K1, for whoever deals or keeps: all that privacy rests on is what the authority signed."""
    membership, question = board.membership, posted.question
    assert membership is not None
    keepers = {member.name: member.public for member in membership.having(KEEPER)}
    query.check_signed(
        numbers_of(membership, len(query.sites)), membership.digest, membership.number,
        frozenset(keepers),
    )  # fmt: skip
    keys = listed_keys(board, posted)
    query.check_keys(
        {
            name: (post.header.hash, post.body)
            for name, post in keys.items()
            if post.header.key == keepers[name] and post.header.terms == query.terms
        }
    )
    present = {(m.name, m.public) for m in membership.having(SITE)}
    if not set(query.sites) <= present:
        raise FleetError("a query lists a site that is not in this epoch")
    if query.fleet != membership.id or query.terms != question.digest:
        raise FleetError("a query is of another fleet or another question")
    if query.length != question.length or query.bound != bound_of(question, query.numbers):
        raise FleetError("a query has another length or bound than its question")
    if query.deadline != question.deadline:
        raise FleetError("a query has another deadline than its question")


# ---- Deal and Roster


def deals_of(
    board: Board, query: SumQuery, more: Iterable[Post] = ()
) -> dict[bytes, tuple[str, Post]]:
    """Valid deals to a query, by their hash; several of a site that posted several."""
    found = {}
    labels = {key: label for label, key in query.sites}
    for post in (*board.all_opened(Kind.DEAL, query.terms), *more):
        label = labels.get(post.header.key)
        body = dealt(query, post.body)
        if label is not None and body is not None and valid_deal(query, label, body):
            found[deal_hash(query, label, body)] = label, post
    return found


def dealt(query: SumQuery, body: bytes) -> bytes | None:
    """The deal in the body of a post, if it is to this query: one query of a name is dealt to, for ever."""
    return body[MARK:] if body[:MARK] == query.digest[:MARK] else None


def bodies(query: SumQuery, deals: Mapping[bytes, tuple[str, Post]]) -> list[tuple[str, bytes]]:
    """Site and deal of each."""
    return [(site, dealt(query, post.body) or b"") for site, post in deals.values()]


def roster_of(board: Board, query: SumQuery) -> SumRoster | None:
    """The roster that the proposer named."""
    post = board.register_of(Kind.ROSTER, query.terms, query.proposer).post
    try:
        return None if post is None else SumRoster.read(query, post.body)
    except FleetError:
        return None


def carried(query: SumQuery, roster: SumRoster) -> list[Post]:
    """Deals that a roster carries, whose headers are signed by their sites."""
    found = []
    keys, topic = dict(query.sites), Topic(Kind.DEAL, query.terms)
    for one in roster.carried:
        try:
            post = Post(Header.parse(one.header).check(), one.body[:SALT], one.body[SALT:])
        except FleetError:
            continue
        if post.header.key == keys.get(one.site) and post.header.topic == topic:
            found.append(post)
    return found


# ---- Answer and words


def said_by(board: Board, posted: Posted, kind: Kind) -> dict[str, bytes]:
    """Bodies of Answers or words, by keeper: signed by the key that signed the Key which the query lists."""
    posts = board.opened(kind, posted.terms)
    signers = {name: post.header.key for name, post in listed_keys(board, posted).items()}
    return {name: posts[key].body for name, key in signers.items() if key in posts}


def answers_of(board: Board, posted: Posted) -> dict[str, bytes]:
    """Bodies of Answers, by keeper."""
    found = said_by(board, posted, Kind.ANSWER)
    return {name: body for name, body in found.items() if body != CLOSED}


def closed_by(board: Board, posted: Posted) -> list[str]:
    """Keepers that never answer."""
    found = said_by(board, posted, Kind.ANSWER)
    return [name for name, body in found.items() if body == CLOSED]


def found_sum(board: Board, posted: Posted) -> SumFound | None:
    """The sum that more than c keepers agree on; raises FleetError if it is not plausible."""
    query = query_of(board, posted)
    if query is None or board.membership is None:
        return None
    found = total(query, answers_of(board, posted))
    few = found is not None and len(found.agreeing) <= _liars(board.membership, query)
    return None if few else found


def _liars(membership: Membership, query: SumQuery) -> int:
    """c, of the query and as it is signed now.

    Where so many sites have left that nothing can be asked, a fifth of all members that there ever were: what
    the query says of itself may be forged.
    """
    try:
        signed = numbers_of(membership).colluding
    except FleetError:
        signed = max(1, len(membership.members) // 5)
    return max(signed, query.numbers.colluding)


def summed(board: Board, posted: Posted) -> BoardAnswer | None:
    """The sum, once enough keepers agree and the named deals are here; None before."""
    query, found = query_of(board, posted), found_sum(board, posted)
    if query is None or found is None:
        return None
    roster = roster_of(board, query)
    if roster is None or roster.digest != found.roster:
        return None
    deals = deals_of(board, query, carried(query, roster))
    chosen = [deals[hash] for _, hash in roster.deals if hash in deals]
    if len(chosen) < len(roster.deals):
        return None
    inside = tuple(site for site, _ in roster.deals)
    missing = tuple(m.name for m in sites_of(board) if m.name not in inside)
    return BoardAnswer(
        posted.question, found.values, sum(post.header.readings for _, post in chosen),
        Fraction(len(inside), query.numbers.honest), inside, missing, at_odds=found.at_odds,
        numbers=query.numbers,
    )  # fmt: skip


def accused(board: Board, posted: Posted) -> Accused | None:
    """Who dealt or answered wrongly, as far as the words on the board show it; None without words."""
    query, words = query_of(board, posted), said_by(board, posted, Kind.WORDS)
    roster = None if query is None else roster_of(board, query)
    if query is None or roster is None or not words:
        return None
    return blame(query, roster, answers_of(board, posted), words)
