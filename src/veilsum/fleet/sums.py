"""The secure sum on a board: which post follows which (`secure_sum` has the protocol and its proof).

    question ── consents ── Keys of keepers ── Query ── Deals ── Roster ── Answers ── the sum

The asker proposes: it lists sites that agreed and keepers whose Keys it holds in a Query, and the Deals that
it holds in a Roster. It is not trusted: all numbers are those that the authority signed (`numbers_of`), and
each site and keeper checks them for itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path

from veilsum.errors import FleetError
from veilsum.fleet.answers import BoardAnswer, Posted, sites_of
from veilsum.fleet.board import Board
from veilsum.fleet.budget_units import FOREVER
from veilsum.fleet.membership import KEEPER, SITE, Membership
from veilsum.fleet.post import SALT, Header, Kind, Post, Topic, pack, short, unpack
from veilsum.fleet.protocol import BoardProtocol, Work, consents_of
from veilsum.fleet.question import FleetQuestion
from veilsum.fleet.release import Draft
from veilsum.fleet.release_rules import SECURE_SUM, noise_for
from veilsum.fleet.secure_sum.answer import CheckWords, answer
from veilsum.fleet.secure_sum.deal import deal, public_key, valid_deal
from veilsum.fleet.secure_sum.numbers import SumNumbers, suggested
from veilsum.fleet.secure_sum.query import Keeper, SumQuery, key_body, read_key
from veilsum.fleet.secure_sum.roster import CarriedDeal, SumRoster, deal_hash, propose
from veilsum.fleet.secure_sum.total import total
from veilsum.privacy.exact.entropy import Entropy, read

PREFIX = 10  # bytes of a key in a Query
MARK = 8  # bytes of q before a deal
USUAL = 7 * 86_400  # seconds to the deadline of a question that has none
SIGNED = tuple(one.name for one in fields(SumNumbers) if one.name not in ("sites", "pack"))


def numbers_of(membership: Membership, sites: int | None = None) -> SumNumbers:
    """The numbers of a secure sum over so many sites of an epoch, as the authority signed them.

    Who may collude does not shrink with those who take part; each site that does not is one of those that
    may be absent.
    """
    everyone = len(membership.having(SITE))
    signed = suggested(everyone)
    given = {name: value for name, value in membership.sums.items() if name in SIGNED}
    signed = replace(signed, **given) if given else signed
    count = everyone if sites is None else sites
    if count > everyone:
        raise FleetError(f"a query lists {count} sites, and the membership has {everyone}")
    return replace(signed, sites=count, absent=max(0, signed.absent - (everyone - count)))


def query_name(question: FleetQuestion) -> str:
    """Under which every site deals once."""
    return question.digest.hex()


def query_post(query: SumQuery) -> bytes:
    """The body of a Query: the sites that take part, and all else."""
    return pack((b"".join(key[:PREFIX] for _, key in query.sites), query.body))


def read_query(membership: Membership, body: bytes) -> SumQuery:
    """The query of a post: sites by the first bytes of keys, which the membership keeps for ever."""
    parts = unpack(body)
    if len(parts) != 2 or len(parts[0]) % PREFIX:
        raise FleetError("a Query is not written as one")
    known = {key[:PREFIX]: (member.name, key) for key, member in membership.keys.items()}
    prefixes = [parts[0][at : at + PREFIX] for at in range(0, len(parts[0]), PREFIX)]
    if not all(prefix in known for prefix in prefixes):
        raise FleetError("a Query lists a site that the membership does not name")
    return SumQuery.read(parts[1], tuple(known[prefix] for prefix in prefixes))


def query_of(board: Board, posted: Posted) -> SumQuery | None:
    """The query that the asker of a question posted, if there is a readable one."""
    if board.membership is None:
        return None
    for key in posted.asker.keys:
        post = board.register_of(Kind.QUERY, posted.terms, key).post
        if post is None:
            continue
        try:
            query = read_query(board.membership, post.body)
        except FleetError:
            continue
        if query.name == query_name(posted.question) and query.proposer == key:
            return query
    return None


def keys_of(board: Board, posted: Posted) -> dict[str, tuple[bytes, bytes]]:
    """Signed Keys for a question, by keeper: the hash of the post, and its body."""
    found: dict[str, tuple[bytes, bytes]] = {}
    posts = board.opened(Kind.KEY, posted.terms)
    for member in () if board.membership is None else board.membership.having(KEEPER):
        post = posts.get(member.public)
        if post is None:
            continue
        try:
            name, _ = read_key(post.body)
        except FleetError:
            continue
        if name == query_name(posted.question):
            found[member.name] = post.header.hash, post.body
    return found


def proposed(
    board: Board, posted: Posted, key: bytes, agreed: Sequence[str], deadline: int
) -> SumQuery:
    """The query that the asker makes of the sites that agreed and the Keys that it holds."""
    membership, keys = board.membership, keys_of(board, posted)
    assert membership is not None
    question = posted.question
    sites = tuple((m.name, m.public) for m in membership.having(SITE) if m.name in agreed)
    keepers = tuple(
        Keeper(name, read_key(body)[1], hash) for name, (hash, body) in sorted(keys.items())
    )
    numbers = numbers_of(membership, len(sites)).listed(len(keepers))
    if question.length > 1:
        numbers = numbers.packed(question.length)
    return SumQuery(
        query_name(question), question.digest, membership.id, membership.digest, membership.number, sites,
        keepers, key, deadline, numbers, question.length, bound_of(question, numbers),
    )  # fmt: skip


def bound_of(question: FleetQuestion, numbers: SumNumbers) -> int:
    """The largest plausible sum."""
    largest = max(question.bound(question.most_records))
    return max(numbers.plausible(largest, law) for law in question.laws)


def check_query(board: Board, posted: Posted, query: SumQuery) -> None:
    """Rule K1, for whoever is asked to deal: all that privacy rests on is what the authority signed."""
    membership = board.membership
    assert membership is not None
    question = posted.question
    query.check_signed(
        numbers_of(membership, len(query.sites)), membership.digest, membership.number,
        frozenset(member.name for member in membership.having(KEEPER)),
    )  # fmt: skip
    query.check_keys(keys_of(board, posted))
    listed = {(m.name, m.public) for m in membership.having(SITE)}
    if not set(query.sites) <= listed:
        raise FleetError("a query lists a site that is not in this epoch")
    if query.fleet != membership.id or query.terms != question.digest:
        raise FleetError("a query is of another fleet or another question")
    if query.length != question.length or query.bound != bound_of(question, query.numbers):
        raise FleetError("a query has another length or bound than its question")


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
    keys = dict(query.sites)
    for one in roster.carried:
        try:
            post = Post(Header.parse(one.header).check(), one.body[:SALT], one.body[SALT:])
        except FleetError:
            continue
        if post.header.key == keys.get(one.site) and post.header.topic == Topic(
            Kind.DEAL, query.terms
        ):
            found.append(post)
    return found


def answers_of(board: Board, query: SumQuery) -> dict[str, bytes]:
    """Bodies of Answers, by keeper."""
    membership = board.membership
    posts = board.opened(Kind.ANSWER, query.terms)
    members = {} if membership is None else membership.keys
    names = set(query.point)
    return {
        members[key].name: post.body
        for key, post in posts.items()
        if key in members and members[key].name in names
    }


def summed(board: Board, posted: Posted) -> BoardAnswer | None:
    """The sum, once enough keepers agree; None before."""
    query = query_of(board, posted)
    if query is None:
        return None
    found = total(query, answers_of(board, query))
    roster = roster_of(board, query)
    if found is None or roster is None or roster.digest != found.roster:
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


class SumProtocol(BoardProtocol):
    """One post a site, one answer a keeper."""

    name = SECURE_SUM

    def answer(self, board: Board, posted: Posted) -> BoardAnswer | None:
        """The sum."""
        return summed(board, posted)

    def due(self, work: Work) -> None:
        """Make a Key, deal, answer: whatever comes next for this site and keeper."""
        query = query_of(work.board, work.posted)
        if query is None:
            self._key(work)
            return
        if not self._accepted(work, query):
            return
        self._deal(work, query)
        self._answer(work, query)
        self._words(work, query)

    def _key(self, work: Work) -> None:
        """As a keeper: a key for this query alone, in a file of its own (rule K7)."""
        posted = work.board.register_of(Kind.KEY, work.posted.terms, work.seat.public).header
        if KEEPER not in work.seat.member.roles or posted is not None:
            return
        path = key_file(work)
        if not path.exists():
            write_secret(path, os.urandom(32))
        name = query_name(work.posted.question)
        work.publish(Kind.KEY, key_body(name, public_key(path.read_bytes())))

    def _accepted(self, work: Work, query: SumQuery) -> bool:
        """Whether this site found the query as the authority signed it, in the epoch that it is of."""
        file, fleet = work.seat.file, work.seat.fleet
        known = file.decision(fleet, query.digest)
        if known is None:
            try:
                check_query(work.board, work.posted, query)
                verdict, reason = "yes", ""
            except FleetError as error:
                verdict, reason = "no", str(error)
            known = (verdict, reason, "rule K1", work.now)
            with file.transaction():
                file.decide(fleet, query.digest, *known)
        if known[0] != "yes":
            work.say(f"takes no part in {work.posted.question.title()}: {known[1]}")
        return known[0] == "yes"

    def _deal(self, work: Work, query: SumQuery) -> None:
        """As a site: the only deal under this name, for ever (rule K3)."""
        topic = Topic(Kind.DEAL, work.posted.terms)
        label = work.seat.member.name
        if work.data is None or label not in query.index or work.releases.covered(topic):
            return
        if work.now > query.deadline or query.epoch != work.seat.membership.number:
            return
        question, found = work.posted.question, work.data.table(work.posted.question)

        def make(entropy: Entropy) -> bytes:
            laws = noise_for(question, Fraction(1, query.numbers.honest))
            noise = [
                int(step)
                for law, length in zip(laws, question.lengths, strict=True)
                for step in law.draw(length, entropy)
            ]
            vector = [a + b for a, b in zip(found.steps, noise, strict=True)]
            return query.digest[:MARK] + deal(query, label, vector, read(entropy, 32))

        work.releases.draw(
            Draft(topic, 1, 1, make, b"", 1, found.records, work.spending(), fresh=True)
        )
        work.say(f"dealt to {question.title()}")

    def _answer(self, work: Work, query: SumQuery) -> None:
        """As a keeper: the only answer, for ever; the key is erased once it is durable (rules K4, K7)."""
        topic = Topic(Kind.ANSWER, work.posted.terms)
        label, path = work.seat.member.name, key_file(work)
        if label not in query.point or work.releases.covered(topic):
            path.unlink(missing_ok=True)
            return
        roster = roster_of(work.board, query)
        if roster is None or not path.exists():
            return
        secret = path.read_bytes()
        if public_key(secret) != query.keepers[query.point[label] - 1].key:
            return
        deals = deals_of(work.board, query, carried(query, roster))
        held = [(site, dealt(query, post.body) or b"") for site, post in deals.values()]
        try:
            made, words = answer(query, label, secret, roster, held, kept_words(work, query))
        except FleetError as error:
            work.say(f"does not answer {work.posted.question.title()} yet: {error}")
            return
        chosen = [item for item in held if deal_hash(query, *item) in {h for _, h in roster.deals}]
        work.releases.draw(
            Draft(
                topic, 1, 1, lambda _: made, made, fresh=True,
                also=lambda: keep_words(work, query, roster, chosen, words),
            )
        )  # fmt: skip
        path.unlink(missing_ok=True)
        work.say(f"answered {work.posted.question.title()}")

    def _words(self, work: Work, query: SumQuery) -> None:
        """As a keeper: the single check words, once answers do not fit together."""
        row = work.seat.file.rows(
            "select data from words where fleet = ? and query = ? and mark = ?",
            work.seat.fleet, query.digest, b"",
        )  # fmt: skip
        everyone = len(answers_of(work.board, query)) == len(query.keepers)
        if row and (everyone or work.now > query.deadline) and not fits(work.board, query):
            work.publish(Kind.WORDS, bytes(row[0][0]))

    def propose(self, work: Work) -> None:
        """As the asker: the Query, when all have said yes or no, and the Roster, when all have dealt."""
        query = query_of(work.board, work.posted)
        if query is None:
            self._propose_query(work)
        elif roster_of(work.board, query) is None:
            deals = deals_of(work.board, query)
            there = {site for site, _ in deals.values()}
            enough = len(there) >= query.numbers.smallest
            if len(there) == len(query.sites) or (enough and work.now > query.deadline):
                roster = propose(
                    query, [(site, dealt(query, p.body) or b"") for site, p in deals.values()]
                )
                work.publish(Kind.ROSTER, roster.body)
        else:
            self._carry_forked(work, query)

    def _carry_forked(self, work: Work, query: SumQuery) -> None:
        """Carry the named deals of sites that posted several: keepers may hold another one."""
        roster = roster_of(work.board, query)
        deals = deals_of(work.board, query)
        count: dict[str, int] = {}
        for site, _ in deals.values():
            count[site] = count.get(site, 0) + 1
        more = [
            CarriedDeal(site, deals[hash][1].header.data, deals[hash][1].salt + deals[hash][1].body)
            for site, hash in (() if roster is None else roster.deals)
            if count.get(site, 0) > 1 and hash in deals
        ]
        if roster is not None and more and not roster.carried:
            work.publish(Kind.ROSTER, replace(roster, carried=tuple(more)).body)

    def _propose_query(self, work: Work) -> None:
        said, members = consents_of(work.board, work.posted), sites_of(work.board)
        keys = keys_of(work.board, work.posted)
        asked = {
            m.name for m in work.seat.membership.members if SITE in m.roles or KEEPER in m.roles
        }
        yes = [member.name for member in members if said.get(member.name)]
        keepers = {
            m.name for m in work.seat.membership.having(KEEPER) if said.get(m.name) is not False
        }
        deadline = work.posted.question.deadline or work.since + USUAL
        everyone = asked <= set(said) and keepers <= set(keys)
        if not everyone and work.now < (work.since + deadline) / 2:
            return
        try:
            query = proposed(work.board, work.posted, work.seat.public, yes, deadline)
        except FleetError as error:
            work.say(f"{work.posted.question.title()} cannot be asked of those who agreed: {error}")
            return
        work.publish(Kind.QUERY, query_post(query))

    def carry(self, posted: Posted, last: int) -> Sequence[tuple[int, int]]:
        """A whole table."""
        del posted, last
        return [(0, FOREVER)]

    def stage(self, board: Board, posted: Posted, now: int) -> str:
        """Whom the question waits for."""
        query = query_of(board, posted)
        if query is None:
            said = consents_of(board, posted)
            waiting = [m.name for m in sites_of(board) if m.name not in said]
            return (
                f"waits for a yes or no of {', '.join(waiting)}"
                if waiting
                else "waits for keys of keepers"
            )
        roster = roster_of(board, query)
        if roster is None:
            there = {site for site, _ in deals_of(board, query).values()}
            waiting = [site for site, _ in query.sites if site not in there]
            late = "; its deadline is over" if now > query.deadline else ""
            return (
                f"waits for {', '.join(waiting)}{late}"
                if waiting
                else "waits for the asker's roster"
            )
        if summed(board, posted) is None:
            answered = answers_of(board, query)
            waiting = [name for name in query.point if name not in answered]
            need = query.numbers.needed + query.numbers.wrong
            return f"{len(answered)} of {need} answers; waits for {', '.join(waiting) or 'nobody'}"
        return ""


def fits(board: Board, query: SumQuery) -> bool:
    """Whether the answers and their check words lie on polynomials."""
    try:
        found = total(query, answers_of(board, query))
    except FleetError:
        return False
    return found is not None and found.words_at_odds == ()


def key_file(work: Work) -> Path:
    """Where a keeper has its key while a query is open: outside the ledger and its backups."""
    return work.folder / f"keeper-{short(work.posted.terms)}.key"


def write_secret(path: Path, data: bytes) -> None:
    """To a new file that only its owner can read, on the disk when this returns."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def kept_words(work: Work, query: SumQuery) -> dict[tuple[bytes, str, bytes], int]:
    """Check words of this query that were computed before (rule K8)."""
    rows = work.seat.file.rows(
        "select mark, data from words where fleet = ? and query = ? and mark != ?",
        work.seat.fleet, query.digest, b"",
    )  # fmt: skip
    return {
        (query.digest, bytes(mark[32:]).decode(), bytes(mark[:32])): int.from_bytes(data, "big")
        for mark, data in rows
    }


def keep_words(
    work: Work,
    query: SumQuery,
    roster: SumRoster,
    chosen: Sequence[tuple[str, bytes]],
    words: CheckWords,
) -> None:
    """Keep the words with the answer, within its transaction."""
    bodies = dict(chosen)
    db, place = work.seat.file.db, (work.seat.fleet, query.digest)
    db.execute("insert or replace into words values (?, ?, ?, ?)", (*place, b"", words.body))
    for (site, _), word in zip(roster.deals, words.words, strict=True):
        mark = bodies[site][:32] + site.encode()
        db.execute(
            "insert or ignore into words values (?, ?, ?, ?)",
            (*place, mark, word.to_bytes(8, "big")),
        )
